package starter

import (
	"errors"
	"fmt"

	"github.com/stint-run/stint/job"
	"go.yaml.in/yaml/v3"
)

// nodeStages reads the stages of a job file: a list of maps with a name and a pool.
func nodeStages(node *yaml.Node) ([]job.Stage, error) {
	if node.Kind != yaml.SequenceNode {
		return nil, errNoStages
	}
	var stages []job.Stage
	for _, item := range node.Content {
		if item.Kind != yaml.MappingNode {
			return nil, fmt.Errorf("line %d: %w", item.Line, errNoStages)
		}
		var stage job.Stage
		for i := 0; i+1 < len(item.Content); i += 2 {
			key, value := item.Content[i], item.Content[i+1]
			if !isValue(value) {
				return nil, fmt.Errorf("line %d: stages: %s: %w", value.Line, key.Value, errNoValue)
			}
			switch key.Value {
			case "name":
				stage.Name = value.Value
			case "pool":
				stage.Pool = value.Value
			default:
				return nil, fmt.Errorf("line %d: unknown key %q of a stage: the keys are name and pool", key.Line, key.Value)
			}
		}
		stages = append(stages, stage)
	}
	return stages, nil
}

var errNoStages = errors.New("stages: expected a list such as [{name: clean, pool: filters}, {name: score, pool: models}]")

// refuseStages is the error of a command that runs no pipelines, if the job is one.
func refuseStages(p *Program, spec job.Spec, why string) error {
	if len(spec.Stages) == 0 {
		return nil
	}
	return usageError("%s: start it with '%[2]s start -f FILE', and a worker for each pool with '%[2]s worker', on a cluster or beside a '%[2]s server'", why, p.name())
}
