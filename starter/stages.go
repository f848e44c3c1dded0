package starter

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/stint-run/stint/internal/limits"
	"github.com/stint-run/stint/job"
	"go.yaml.in/yaml/v3"
)

// nodeStages reads stages of a job file: a list of maps.
func nodeStages(node *yaml.Node) ([]job.Stage, error) {
	if node.Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("line %d: %w", node.Line, errNoStages)
	}
	var stages []job.Stage
	for _, item := range node.Content {
		stage, err := nodeStage(item)
		if err != nil {
			return nil, err
		}
		stages = append(stages, stage)
	}
	return stages, nil
}

var errNoStages = errors.New("stages: expected a list such as [{name: clean, pool: filters}, {name: score, ensemble: [{pool: a}, {pool: b}]}]")

// nodeStage reads one stage.
func nodeStage(node *yaml.Node) (stage job.Stage, err error) {
	err = eachKey(node, func(key, value *yaml.Node) (err error) {
		switch key.Value {
		case "name":
			err = nodeText(value, &stage.Name)
		case "pool":
			err = nodeText(value, &stage.Pool)
		case "batch-items":
			stage.BatchItems, err = nodeNumber(value)
		case "window":
			stage.Window, err = nodeWindow(value)
		case "ensemble":
			stage.Ensemble, err = nodeStages(value)
		case "fail-fast":
			stage.KeepErrors, err = nodeNot(value)
		case "switch":
			err = nodeText(value, &stage.Switch)
		case "cases":
			stage.Cases, err = nodeCases(value)
		case "default":
			var other job.Stage
			other, err = nodeStage(value)
			stage.Default = &other
		case "stages":
			stage.Stages, err = nodeStages(value)
		default:
			return fmt.Errorf("line %d: unknown key %q of a stage: the keys are name, and pool with batch-items and window, ensemble with fail-fast, switch with cases and default, or stages",
				key.Line, key.Value)
		}
		return err
	})
	return stage, err
}

// nodeWindow reads the window of a stage.
func nodeWindow(node *yaml.Node) (int, error) {
	var text string
	if err := nodeText(node, &text); err != nil {
		return 0, err
	}
	n, err := limits.ParseWindow(text)
	if err != nil {
		return 0, fmt.Errorf("line %d: stages: %w", node.Line, err)
	}
	return n, nil
}

// nodeCases reads the cases of a switch: a map of values to stages.
func nodeCases(node *yaml.Node) (cases []job.Case, err error) {
	err = eachKey(node, func(key, value *yaml.Node) error {
		stage, err := nodeStage(value)
		cases = append(cases, job.Case{Value: key.Value, Stage: stage})
		return err
	})
	return cases, err
}

// eachKey calls yield with the keys of a map and their values, in their order.
func eachKey(node *yaml.Node, yield func(key, value *yaml.Node) error) error {
	if node.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: %w", node.Line, errNoStages)
	}
	taken := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if taken[key.Value] {
			return fmt.Errorf("line %d: stages: duplicate key %q", key.Line, key.Value)
		}
		taken[key.Value] = true
		if err := yield(key, value); err != nil {
			return err
		}
	}
	return nil
}

func nodeText(node *yaml.Node, text *string) error {
	if !isValue(node) {
		return fmt.Errorf("line %d: stages: %w", node.Line, errNoValue)
	}
	*text = node.Value
	return nil
}

// nodeNumber reads a whole number of 1 or more.
func nodeNumber(node *yaml.Node) (int64, error) {
	var text string
	if err := nodeText(node, &text); err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("line %d: stages: invalid number %q: use a whole number of 1 or more", node.Line, text)
	}
	return n, nil
}

// nodeNot reads true or false, and returns the other.
func nodeNot(node *yaml.Node) (bool, error) {
	var text string
	if err := nodeText(node, &text); err != nil {
		return false, err
	}
	is, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("line %d: stages: invalid value %q: use true or false", node.Line, text)
	}
	return !is, nil
}
