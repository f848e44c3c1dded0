package job

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
)

// Settings are the fields of a [Spec] that can be changed while the job runs. In an argument of
// jobs.Run.Set, nil leaves a setting as it is.
type Settings struct {
	Window     *int       `json:"window,omitempty"`      // 0: automatic
	BatchItems *int64     `json:"batch_items,omitempty"` // 0: automatic; from the next page of batches on
	MaxFailed  *Tolerance `json:"max_failed,omitempty"`
	Rate       *Rate      `json:"rate,omitempty"` // 0: no limit
	// RequestRate and TokenRate, 0: no limit, MaxCost and MaxTokens, 0: no budget, and Deadline, "": none, are as in [Spec].
	RequestRate *Rate   `json:"request_rate,omitempty"`
	TokenRate   *Rate   `json:"token_rate,omitempty"`
	MaxCost     *Money  `json:"max_cost,omitempty"`
	MaxTokens   *int64  `json:"max_tokens,omitempty"`
	Deadline    *string `json:"deadline,omitempty"`
	Priority    *int    `json:"priority,omitempty"` // 1 … 5; with the next batches
	// Windows are those of stages, by their names (see [Stage]); 0: that of the job. Others stay as they are.
	Windows map[string]int `json:"windows,omitempty"`
}

// IsZero reports whether no setting is set.
func (s Settings) IsZero() bool {
	return s.Window == nil && s.BatchItems == nil && s.MaxFailed == nil && s.Rate == nil && len(s.Windows) == 0 &&
		s.RequestRate == nil && s.TokenRate == nil && s.MaxCost == nil && s.MaxTokens == nil && s.Deadline == nil && s.Priority == nil
}

// Settings returns the spec's settings; none is nil. Windows has all stages that pools run.
func (s Spec) Settings() Settings {
	c := Settings{
		Window: &s.Window, BatchItems: &s.BatchItems, MaxFailed: &s.MaxFailed, Rate: &s.JobRate,
		RequestRate: &s.RequestRate, TokenRate: &s.TokenRate, MaxCost: &s.MaxCost, MaxTokens: &s.MaxTokens, Deadline: &s.Deadline,
		Priority: &s.Priority,
	}
	for _, stage := range s.StagePools() {
		if c.Windows == nil {
			c.Windows = map[string]int{}
		}
		c.Windows[stage.Name] = stage.Window
	}
	return c
}

// CheckSettings returns an error that names every setting that is invalid for the spec, or nil.
func (s Spec) CheckSettings(c Settings) error {
	_, err := withWindows(s.Stages, c.Windows)
	return errors.Join(err, s.With(c).Validate())
}

// With returns the spec with those settings that are not nil.
func (s Spec) With(c Settings) Spec {
	change(&s.Window, c.Window)
	change(&s.BatchItems, c.BatchItems)
	change(&s.MaxFailed, c.MaxFailed)
	change(&s.JobRate, c.Rate)
	change(&s.RequestRate, c.RequestRate)
	change(&s.TokenRate, c.TokenRate)
	change(&s.MaxCost, c.MaxCost)
	change(&s.MaxTokens, c.MaxTokens)
	change(&s.Deadline, c.Deadline)
	change(&s.Priority, c.Priority)
	if len(c.Windows) > 0 {
		s.Stages, _ = withWindows(s.Stages, c.Windows) // CheckSettings has the error
	}
	return s
}

// change sets a field to a value, unless that is nil.
func change[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

// settingNames reads each setting as people write it.
var settingNames = map[string]func(*Settings, string) error{
	"window": func(s *Settings, v string) error {
		n, err := limits.ParseWindow(v)
		s.Window = &n
		return err
	},
	"batch-items": func(s *Settings, v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 0 || n > limits.MaxBatchItems {
			return fmt.Errorf("batch-items %s: use 1 to %d, or 0 for automatic", v, limits.MaxBatchItems)
		}
		s.BatchItems = &n
		return nil
	},
	"max-failed": func(s *Settings, v string) error {
		t := Tolerance(v)
		s.MaxFailed = &t
		if t.Validate() != nil {
			return fmt.Errorf("max-failed %q: %s", v, toleranceForm)
		}
		return nil
	},
	"rate": func(s *Settings, v string) error {
		s.Rate = new(Rate)
		return s.Rate.Set(v)
	},
	"rpm": func(s *Settings, v string) error {
		s.RequestRate = new(Rate)
		return s.RequestRate.SetPerMinute(v)
	},
	"tpm": func(s *Settings, v string) error {
		s.TokenRate = new(Rate)
		return s.TokenRate.SetPerMinute(v)
	},
	"max-cost": func(s *Settings, v string) error {
		s.MaxCost = new(Money)
		return s.MaxCost.Set(v)
	},
	"max-tokens": func(s *Settings, v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if v != noneText && (err != nil || n < 0) {
			return fmt.Errorf("max-tokens %q: use a number of tokens, or none", v)
		}
		s.MaxTokens = &n
		return nil
	},
	"priority": func(s *Settings, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > limits.LeastPriority {
			return fmt.Errorf("priority %q: use 1 (before other jobs) to %d", v, limits.LeastPriority)
		}
		s.Priority = &n
		return nil
	},
	"deadline": func(s *Settings, v string) error {
		if v == noneText {
			v = ""
		}
		s.Deadline = &v
		_, err := Spec{Deadline: v}.DeadlineAfter(time.Time{})
		return err
	},
}

// stageWindow ends the name of a stage's window: "score.window".
const stageWindow = ".window"

// setStageWindow reads a stage's window as people write it.
func (s *Settings) setStageWindow(stage, text string) error {
	n, err := limits.ParseWindow(text)
	if err != nil {
		return fmt.Errorf("%s.%w", stage, err)
	}
	if s.Windows == nil {
		s.Windows = map[string]int{}
	}
	s.Windows[stage] = n
	return nil
}

// Parse sets settings written as name=value; the names are window, batch-items, max-failed, rate, rpm and tpm (limits of
// requests and tokens, a minute), max-cost, max-tokens, priority and deadline, and STAGE.window for the window of a stage, whose
// auto is the job's. The error names every invalid one.
func (s *Settings) Parse(texts []string) error {
	var errs []error
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		set := settingNames[name]
		stage, isStage := strings.CutSuffix(name, stageWindow)
		switch {
		case ok && isStage && stage != "":
			errs = append(errs, s.setStageWindow(stage, value))
		case !ok:
			errs = append(errs, fmt.Errorf("%q: write name=value, such as window=16", text))
		case set == nil:
			errs = append(errs, fmt.Errorf("%q: unknown setting: use %s, or STAGE.window", name, strings.Join(slices.Sorted(maps.Keys(settingNames)), ", ")))
		default:
			errs = append(errs, set(s, value))
		}
	}
	return errors.Join(errs...)
}
