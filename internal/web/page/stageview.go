package page

import (
	"fmt"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/job"
)

// stagesView is the picture of a pipeline.
type stagesView struct {
	Steps []stepView
	Slow  string // the stage that holds the others up; empty: none does
}

// stepView is a stage: one that a pool runs, or several beside or after each other.
type stepView struct {
	Kind  string // "pool", "ensemble", "switch" or "row"
	Name  string
	Label string // in front of it: the case of a switch; empty: none
	Pool  *poolStage
	Inner []stepView
}

// poolStage is a stage that a pool runs.
type poolStage struct {
	Name, Pool                      string
	Waiting, InFlight, Done, Failed string
	Window, Rate, Share, Used       string
	Bar                             bar
	Slow, Busy                      bool
}

// newStagesView lays out the stages of a pipeline; nil: the job is none.
func newStagesView(j Job, now time.Time) *stagesView {
	if len(j.Stages) == 0 {
		return nil
	}
	slow := slowest(j.Report)
	v := &stagesView{Slow: slow}
	pools := map[string]*poolStage{}
	for _, s := range j.Stages {
		pools[s.Stage] = newPoolStage(j.Report, s, now, s.Stage == slow)
	}
	if j.spec != nil && len(j.spec.Stages) > 0 {
		v.Steps = stepsOf(j.spec.Stages, "", pools)
		return v
	}
	for _, s := range j.Stages {
		v.Steps = append(v.Steps, stepView{Kind: "pool", Name: s.Stage, Pool: pools[s.Stage]})
	}
	return v
}

// slowest names the stage that holds the others up: the one that has most of the batches which are under way, in flight
// or waiting for it; empty: none has. What is planned waits for the first stage in any case.
func slowest(r job.Report) string {
	if r.State.Final() || len(r.Stages) < 2 {
		return ""
	}
	all, most, name := 0, 0, ""
	for i, s := range r.Stages {
		load := s.InFlight
		if i > 0 {
			load += s.Waiting
		}
		all += load
		if load > most {
			most, name = load, s.Stage
		}
	}
	if most < 2 || 10*most < 6*all {
		return ""
	}
	return name
}

func newPoolStage(r job.Report, s job.StageReport, now time.Time, slow bool) *poolStage {
	_, inner, _ := cutLast(s.Stage)
	p := &poolStage{
		Name: inner, Pool: s.Pool, Slow: slow, Busy: s.InFlight > 0,
		Waiting: text.Count(s.Waiting, "batch"), InFlight: text.Count(s.InFlight, "batch"), Done: text.Thousands(s.Done), Failed: text.Thousands(s.Failed),
	}
	if s.Window > 0 {
		p.Window = fmt.Sprintf("of at most %d", s.Window)
	}
	if items, share := r.StageSpeed(s, now); s.Done > 0 {
		p.Rate, p.Share = perSecond(items), percentage(share)+" of the time"
	}
	if !s.Usage.IsZero() {
		p.Used = s.Usage.String()
	}
	whole := max(float64(s.Done), float64(r.Planned), 1)
	p.Bar = newBar(fmt.Sprintf("%s items done, %s failed", p.Done, p.Failed), whole, []part{
		{class: "ok", size: float64(s.Done - s.Failed)}, {class: "failed", size: float64(s.Failed)},
	})
	return p
}

// cutLast cuts a stage's name before its last part.
func cutLast(name string) (outer, inner string, nested bool) {
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		return name[:i], name[i+1:], true
	}
	return "", name, false
}

// stepsOf lays out stages that run one after the other.
func stepsOf(stages []job.Stage, outer string, pools map[string]*poolStage) []stepView {
	var steps []stepView
	for i := range stages {
		steps = append(steps, stepOf(&stages[i], outer, pools))
	}
	return steps
}

func stepOf(s *job.Stage, outer string, pools map[string]*poolStage) stepView {
	name := outer + s.Name
	step := stepView{Kind: "pool", Name: s.Name, Pool: pools[name]}
	switch {
	case len(s.Ensemble) > 0:
		step.Kind, step.Inner = "ensemble", stepsOf(s.Ensemble, name+".", pools)
	case len(s.Cases) > 0:
		step.Kind, step.Label = "switch", s.Switch
		for i := range s.Cases {
			inner := stepOf(&s.Cases[i].Stage, name+".", pools)
			inner.Label = s.Cases[i].Value
			step.Inner = append(step.Inner, inner)
		}
		if s.Default != nil {
			inner := stepOf(s.Default, name+".", pools)
			inner.Label = "otherwise"
			step.Inner = append(step.Inner, inner)
		}
	case len(s.Stages) > 0:
		step.Kind, step.Inner = "row", stepsOf(s.Stages, name+".", pools)
	}
	return step
}
