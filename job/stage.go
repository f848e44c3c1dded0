package job

import "fmt"

// Stage is one step of a pipeline: its pool's handler gets the results of the stage before. An item that fails or is dropped in
// a stage does not reach the later ones; its error record has the stage's name, and the item as the job got it.
type Stage struct {
	// Name names the stage in error records, settings and reports: [a-z0-9][a-z0-9-]*, different from those of the others.
	Name string `json:"name"`
	// Pool names the workers that run it.
	Pool string `json:"pool"`
}

// MaxStages is how many stages a job has at most.
const MaxStages = 20

// checkStages refuses stages that cannot be run.
func (s Spec) checkStages() []error {
	if len(s.Stages) == 0 {
		return nil
	}
	var errs []error
	if s.Source != "" && s.Source != SourceFiles {
		errs = append(errs, fieldError("Stages", "a job with the source %s has one handler: use the source files", s.Source))
	}
	if len(s.Stages) > MaxStages {
		errs = append(errs, fieldError("Stages", "%d stages: use at most %d", len(s.Stages), MaxStages))
	}
	if s.Pool != s.Stages[0].Pool {
		errs = append(errs, fieldError("Pool", "%q: leave it out, or name that of the first stage, %q", s.Pool, s.Stages[0].Pool))
	}
	taken := map[string]int{}
	for i, stage := range s.Stages {
		if err := CheckName("stage", stage.Name); err != nil {
			errs = append(errs, fmt.Errorf("stage %d: %w", i+1, err))
		} else if first, ok := taken[stage.Name]; ok {
			errs = append(errs, fieldError("Stages", "%q is the name of stages %d and %d: give each its own", stage.Name, first, i+1))
		}
		taken[stage.Name] = i + 1
		if err := CheckName("pool", stage.Pool); err != nil {
			errs = append(errs, fmt.Errorf("stage %d: %w", i+1, err))
		}
	}
	return errs
}
