package job

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/text"
)

// Stage is one step of a pipeline: it gets the results of the stage before. An item that fails or is dropped in a stage
// does not reach the later ones; its error record has the stage's name, and the item as the job got it.
//
// A stage is one of four: a Pool, an Ensemble, a Switch, or Stages in their order. They may be nested, up to five deep.
type Stage struct {
	// Name names the stage in error records, settings and reports: [a-z0-9][a-z0-9-]*. A stage within another one is
	// called "OUTER.INNER" there, in at most 200 bytes; its name is by default that of its pool. Stages beside each
	// other have different names.
	Name string `json:"name"`

	// Pool names the workers that run it.
	Pool string `json:"pool,omitempty"`
	// BatchItems is how many items a batch has here at most: 1 … 10,000,000. Batches that come from the stage before
	// are split, in up to 17 pieces, and never merged; those of the first stage have the job's BatchItems. Default:
	// they stay as they are.
	BatchItems int64 `json:"batch_items,omitempty"`
	// Window is how many batches may be in flight at once in a stage that a pool runs, within that of the job: 1 …
	// 10,000. The stages before wait for it. 0: no other limit than the job's.
	Window int `json:"window,omitempty"`

	// Ensemble are the members, at least two, that each get every item. The result is the list of their results, in
	// member order, with null for a member that has dropped the item; an item that all have dropped is dropped. An item
	// that a member fails has failed, with the error of the first such member, unless KeepErrors is set.
	Ensemble []Stage `json:"ensemble,omitempty"`
	// KeepErrors puts the errors of an ensemble's members in its list, as {"error":{"type":…,"message":…}}. An item
	// that all members fail has failed with the type [ErrorEnsemble].
	KeepErrors bool `json:"keep_errors,omitempty"`

	// Switch sends each item to one of Cases, by a field of it (".kind", ".place.country"; a text, number, true or
	// false) or by the answer of a pool ("router"), which is a text. An item that matches no case goes to Default, or
	// fails with the type [ErrorRoute] if there is no Default.
	Switch  string `json:"switch,omitempty"`
	Cases   []Case `json:"cases,omitempty"`
	Default *Stage `json:"default,omitempty"`

	// Stages run one after the other, like those of a pipeline, as one stage.
	Stages []Stage `json:"stages,omitempty"`
}

// Case is one way that the items of a switch can take.
type Case struct {
	// Value is the value of the field, or the router's answer, for its items: at most 500 bytes as JSON.
	Value string `json:"value"`
	Stage
}

// Types of errors that a pipeline itself gives to items.
const (
	ErrorRoute    = "Route"    // the item matches no case of a switch
	ErrorEnsemble = "Ensemble" // all members of an ensemble have failed it
)

// Limits of pipelines.
const (
	maxNested = 5
	maxCase   = 500 // of a case's value, and of the name of a switch's field: each execution is given them all
)

// ByField reports whether a switch goes by a field of the item, and not by the answer of a pool.
func (s *Stage) ByField() bool { return strings.HasPrefix(s.Switch, ".") }

// inner returns the stages within this one, in their order.
func (s *Stage) inner() []*Stage {
	var all []*Stage
	for i := range s.Ensemble {
		all = append(all, &s.Ensemble[i])
	}
	for i := range s.Cases {
		all = append(all, &s.Cases[i].Stage)
	}
	if s.Default != nil {
		all = append(all, s.Default)
	}
	for i := range s.Stages {
		all = append(all, &s.Stages[i])
	}
	return all
}

// StagePools returns the stages of a pipeline that pools run, in the order in which items reach them; none: the job has
// one handler. A switch that a pool decides is one, too. Each has its name as error records, settings and reports have
// it, its pool and its window, and nothing else. The spec must have its defaults filled in.
func (s Spec) StagePools() []Stage {
	var all []Stage
	eachPool(s.Stages, "", func(name, pool string, stage *Stage) {
		all = append(all, Stage{Name: name, Pool: pool, Window: stage.Window})
	})
	return all
}

// eachPool calls yield with each stage that a pool runs.
func eachPool(stages []Stage, outer string, yield func(name, pool string, stage *Stage)) {
	for i := range stages {
		stages[i].eachPool(outer, yield)
	}
}

func (s *Stage) eachPool(outer string, yield func(name, pool string, stage *Stage)) {
	name := outer + s.Name
	if pool := s.runBy(); pool != "" {
		yield(name, pool, s)
	}
	for _, inner := range s.inner() {
		inner.eachPool(name+".", yield)
	}
}

// runBy returns the pool that runs the stage itself; "": none does.
func (s *Stage) runBy() string {
	if s.Switch != "" && !s.ByField() {
		return s.Switch
	}
	return s.Pool
}

// withWindows sets windows of stages by their names, and returns an error if a name is unknown.
func withWindows(stages []Stage, windows map[string]int) ([]Stage, error) {
	stages = withStageDefaults(stages, 1) // copies
	found := map[string]bool{}
	var names []string
	eachPool(stages, "", func(name, _ string, stage *Stage) {
		names = append(names, name)
		if window, ok := windows[name]; ok {
			stage.Window, found[name] = window, true
		}
	})
	for _, name := range windowNames(windows) {
		if found[name] {
			continue
		}
		if len(names) == 0 {
			return stages, fmt.Errorf("%s.window: the job has no stages: use window", name)
		}
		return stages, fmt.Errorf("%s.window: no pool runs a stage of that name: use %s", name, strings.Join(names, ", "))
	}
	return stages, nil
}

// windowNames returns the stages that windows are for, always in the same order: workflows use it.
func windowNames(windows map[string]int) []string { return slices.Sorted(maps.Keys(windows)) }

// Pools returns the pools whose handlers the job's items reach, each once.
func (s Spec) Pools() []string {
	if len(s.Stages) == 0 {
		return []string{s.Pool}
	}
	var pools []string
	for _, stage := range s.StagePools() {
		if !slices.Contains(pools, stage.Pool) {
			pools = append(pools, stage.Pool)
		}
	}
	return pools
}

// withStageDefaults names the stages that need no name of their own.
func withStageDefaults(stages []Stage, depth int) []Stage {
	stages = slices.Clone(stages)
	for i := range stages {
		stages[i] = stages[i].withDefaults(depth)
	}
	return stages
}

func (s Stage) withDefaults(depth int) Stage {
	if depth > maxNested { // refused by checkStages
		return s
	}
	if depth > 1 {
		setDefault(&s.Name, s.Pool)
	}
	s.Ensemble = withStageDefaults(s.Ensemble, depth+1)
	s.Stages = withStageDefaults(s.Stages, depth+1)
	s.Cases = slices.Clone(s.Cases)
	for i := range s.Cases {
		s.Cases[i].Stage = s.Cases[i].Stage.withDefaults(depth + 1)
	}
	if s.Default != nil {
		other := s.Default.withDefaults(depth + 1)
		s.Default = &other
	}
	return s
}

// checkStages refuses stages that cannot be run.
func (s Spec) checkStages() []error {
	if len(s.Stages) == 0 {
		return nil
	}
	var errs []error
	all := make([]*Stage, len(s.Stages))
	for i := range s.Stages {
		all[i] = &s.Stages[i]
	}
	errs = append(errs, checkBeside("", all, 1)...)
	pools := s.StagePools()
	if len(pools) > limits.MaxStages {
		errs = append(errs, fieldError("Stages", "%d stages, nested ones included: use at most %d", len(pools), limits.MaxStages))
	}
	if len(pools) > 0 && s.Pool != pools[0].Pool {
		errs = append(errs, fieldError("Pool", "%q: leave it out, or name that of the first stage, %q", s.Pool, pools[0].Pool))
	}
	return errs
}

// checkBeside checks stages that are beside each other.
func checkBeside(outer string, stages []*Stage, depth int) (errs []error) {
	if depth > maxNested {
		return []error{fieldError("Stages", "%s: stages may be nested up to %d deep", strings.TrimSuffix(outer, "."), maxNested)}
	}
	taken := map[string]int{}
	for i, stage := range stages {
		where := fmt.Sprintf("stage %d", i+1)
		if outer != "" {
			where = fmt.Sprintf("stage %d within %s", i+1, strings.TrimSuffix(outer, "."))
		}
		if err := limits.CheckName("stage", stage.Name); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", where, err))
		} else if first, ok := taken[stage.Name]; ok {
			errs = append(errs, fieldError("Stages", "%q is the name of stages %d and %d: give each its own", outer+stage.Name, first, i+1))
		}
		taken[stage.Name] = i + 1
		if whole := outer + stage.Name; len(whole) > limits.MaxName {
			errs = append(errs, fieldError("Stage.Name", "%q is %d bytes long with those of the stages around it: at most %d are allowed", text.Cut(whole, 50), len(whole), limits.MaxName))
		}
		if err := stage.check(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", where, err))
			continue
		}
		errs = append(errs, checkBeside(outer+stage.Name+".", stage.inner(), depth+1)...)
	}
	return errs
}

// check refuses a stage that is not one of the four kinds; it does not look at those within it.
func (s *Stage) check() error {
	var kinds []string
	for _, kind := range []struct {
		field string
		set   bool
	}{{"Stage.Pool", s.Pool != ""}, {"Stage.Ensemble", len(s.Ensemble) > 0}, {"Stage.Switch", s.Switch != ""}, {"Stage.Stages", len(s.Stages) > 0}} {
		if kind.set {
			kinds = append(kinds, kind.field)
		}
	}
	switch {
	case len(kinds) == 0:
		return fmt.Errorf("%w, or make it an ensemble, a switch, or stages", limits.CheckName("pool", s.Pool))
	case len(kinds) > 1:
		return fieldError(kinds[0], "excludes %s: use one of them", strings.Join(kinds[1:], ", "))
	case s.KeepErrors && len(s.Ensemble) == 0:
		return fieldError("Stage.KeepErrors", "is for ensembles: leave it out")
	case s.Switch == "" && len(s.Cases) > 0:
		return fieldError("Stage.Cases", "needs Stage.Switch: name a field such as .kind, or a pool")
	case s.Switch == "" && s.Default != nil:
		return fieldError("Stage.Default", "needs Stage.Switch: name a field such as .kind, or a pool")
	case s.BatchItems != 0 && s.Pool == "":
		return fieldError("Stage.BatchItems", "is for a stage with a pool: leave it out, or give it to the stages within")
	case s.BatchItems < 0 || s.BatchItems > limits.MaxBatchItems:
		return fieldError("Stage.BatchItems", "%d: use 1 to %d", s.BatchItems, limits.MaxBatchItems)
	case s.Window != 0 && s.runBy() == "":
		return fieldError("Stage.Window", "is for a stage that a pool runs: give it to the stages within this one")
	case s.Window < 0 || s.Window > limits.MaxWindow:
		return fieldError("Stage.Window", "%d: use 1 to %d, or 0 for that of the job", s.Window, limits.MaxWindow)
	case s.Pool != "":
		return limits.CheckName("pool", s.Pool)
	case len(s.Ensemble) == 1:
		return fieldError("Stage.Ensemble", "has one member: give it at least two, or make it a stage with a pool")
	case s.Switch != "":
		return s.checkSwitch()
	}
	return nil
}

func (s *Stage) checkSwitch() error {
	if !s.ByField() {
		if err := limits.CheckName("pool", s.Switch); err != nil {
			return fmt.Errorf("switch: use a field such as .kind, or a pool: %w", err)
		}
	} else if slices.Contains(strings.Split(s.Switch[1:], "."), "") {
		return fieldError("Stage.Switch", "%q: expected a field such as .kind or .place.country", s.Switch)
	}
	if len(s.Cases) == 0 {
		return fieldError("Stage.Cases", "is empty: a switch needs at least one, such as {bird: {pool: birds}}")
	}
	if text.JSONSize(s.Switch) > maxCase {
		return fieldError("Stage.Switch", "%q: a field's name may take at most %d bytes as JSON", text.Cut(s.Switch, 50), maxCase)
	}
	taken := map[string]bool{}
	for _, c := range s.Cases {
		if text.JSONSize(c.Value) > maxCase {
			return fieldError("Stage.Cases", "has the value %q: it may take at most %d bytes as JSON", text.Cut(c.Value, 50), maxCase)
		}
		if taken[c.Value] {
			return fieldError("Stage.Cases", "has the value %q twice: use each once", c.Value)
		}
		taken[c.Value] = true
	}
	return nil
}
