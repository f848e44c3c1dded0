package job

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stretchr/testify/require"
)

func pipelineSpec(stages ...Stage) Spec {
	return Spec{Name: "nightly", Files: &Files{Input: []string{"in.jsonl"}}, Output: "out.jsonl", Stages: stages}
}

func TestStages_PoolIsThatOfTheFirst(t *testing.T) {
	t.Parallel()
	s := pipelineSpec(Stage{Name: "clean", Pool: "awk"}, Stage{Name: "score", Pool: "models"}).WithDefaults()
	require.Equal(t, "awk", s.Pool)
	require.NoError(t, s.Validate())
}

// P1: a pipeline is checked as a whole before anything starts.
func TestStages_P1_Invalid(t *testing.T) {
	t.Parallel()
	var many []Stage
	for i := range limits.MaxStages + 1 {
		many = append(many, Stage{Name: fmt.Sprint("s", i), Pool: "p"})
	}
	for _, c := range []struct {
		name   string
		change func(s *Spec)
		want   []string
	}{
		{"two of one name", func(s *Spec) { s.Stages[1].Name = "clean" }, []string{`Stages "clean" is the name of stages 1 and 2: give each its own`}},
		{"no name", func(s *Spec) { s.Stages[1].Name = "" }, []string{"stage 2: stage name is empty: use lower-case letters"}},
		{"no pool", func(s *Spec) { s.Stages[1].Pool = "" }, []string{"stage 2: pool name is empty", "or make it an ensemble, a switch, or stages"}},
		{"invalid name and pool", func(s *Spec) { s.Stages[0] = Stage{Name: "A b", Pool: "p/q"}; s.Pool = "" }, []string{`stage 1: stage name "A b"`, `stage 1: pool name "p/q"`}},
		{"another pool", func(s *Spec) { s.Pool = "other" }, []string{`Pool "other": leave it out, or name that of the first stage, "awk"`}},
		{"too many", func(s *Spec) { s.Stages = many }, []string{"Stages 21 stages, nested ones included: use at most 20"}},
		{"an ensemble of one", func(s *Spec) { s.Stages[1] = Stage{Name: "score", Ensemble: []Stage{{Pool: "a"}}} }, []string{"stage 2: Stage.Ensemble has one member: give it at least two"}},
		{"members of one name", func(s *Spec) { s.Stages[1] = Stage{Name: "score", Ensemble: []Stage{{Pool: "a"}, {Pool: "a"}}} },
			[]string{`Stages "score.a" is the name of stages 1 and 2: give each its own`}},
		{"two kinds", func(s *Spec) { s.Stages[1].Stages = []Stage{{Pool: "a"}} }, []string{"stage 2: Stage.Pool excludes Stage.Stages: use one of them"}},
		{"errors of no ensemble", func(s *Spec) { s.Stages[1].KeepErrors = true }, []string{"stage 2: Stage.KeepErrors is for ensembles"}},
		{"cases without a switch", func(s *Spec) { s.Stages[1].Cases = []Case{{Value: "x", Stage: Stage{Pool: "a"}}} }, []string{"stage 2: Stage.Cases needs Stage.Switch"}},
		{"a switch without cases", func(s *Spec) { s.Stages[1] = Stage{Name: "route", Switch: ".kind"} }, []string{"stage 2: Stage.Cases is empty"}},
		{"a case without a pool", func(s *Spec) { s.Stages[1] = Stage{Name: "route", Switch: ".kind", Cases: []Case{{Value: "x"}}} },
			[]string{"stage 1 within route: stage name is empty", "stage 1 within route: pool name is empty"}},
		{"two cases of one value", func(s *Spec) {
			s.Stages[1] = Stage{Name: "route", Switch: "r", Cases: []Case{{Value: "x", Stage: Stage{Pool: "a"}}, {Value: "x", Stage: Stage{Pool: "b"}}}}
		}, []string{`stage 2: Stage.Cases has the value "x" twice`}},
		{"a bad field", func(s *Spec) {
			s.Stages[1] = Stage{Name: "route", Switch: ".a..b", Cases: []Case{{Value: "x", Stage: Stage{Pool: "a"}}}}
		},
			[]string{`stage 2: Stage.Switch ".a..b": expected a field such as .kind`}},
		{"a bad router", func(s *Spec) {
			s.Stages[1] = Stage{Name: "route", Switch: "A b", Cases: []Case{{Value: "x", Stage: Stage{Pool: "a"}}}}
		},
			[]string{"stage 2: switch: use a field such as .kind, or a pool: pool name"}},
		{"too many items", func(s *Spec) { s.Stages[1].BatchItems = limits.MaxBatchItems + 1 }, []string{"stage 2: Stage.BatchItems 10000001: use 1 to 10000000"}},
		{"items of an ensemble", func(s *Spec) {
			s.Stages[1] = Stage{Name: "score", BatchItems: 5, Ensemble: []Stage{{Pool: "a"}, {Pool: "b"}}}
		}, []string{"stage 2: Stage.BatchItems is for a stage with a pool"}},
		{"too deep", func(s *Spec) {
			for range 5 {
				s.Stages = []Stage{{Name: "deeper", Stages: s.Stages}}
			}
		}, []string{"Stages deeper.deeper.deeper.deeper.deeper: stages may be nested up to 5 deep"}},
		{"window of an ensemble", func(s *Spec) {
			s.Stages[1] = Stage{Name: "score", Window: 3, Ensemble: []Stage{{Pool: "a"}, {Pool: "b"}}}
		}, []string{"stage 2: Stage.Window is for a stage that a pool runs"}},
		{"window of a switch", func(s *Spec) {
			s.Stages[1] = Stage{Name: "score", Window: 3, Switch: ".kind", Cases: []Case{{Value: "x", Stage: Stage{Pool: "a"}}}}
		}, []string{"stage 2: Stage.Window is for a stage that a pool runs"}},
		{"window", func(s *Spec) { s.Stages[0].Window, s.Stages[1].Window = -1, limits.MaxWindow+1 },
			[]string{"stage 1: Stage.Window -1: use 1 to 10000", "stage 2: Stage.Window 10001"}},
		{"a loop", func(s *Spec) { s.Loop, s.Files = &Loop{}, nil }, []string{"Stages is not for loops: it has one handler"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := pipelineSpec(Stage{Name: "clean", Pool: "awk"}, Stage{Name: "score", Pool: "models"})
			c.change(&s)
			err := s.WithDefaults().Validate()
			require.Error(t, err)
			for _, want := range c.want {
				require.True(t, strings.Contains(err.Error(), want), "%v", err)
			}
		})
	}
}

// P2, P3, P4: stages within others are named by them, or by their pools.
func TestStages_Names(t *testing.T) {
	t.Parallel()
	s := pipelineSpec(
		Stage{Name: "score", Ensemble: []Stage{{Pool: "a"}, {Name: "two", Stages: []Stage{{Pool: "b"}, {Name: "last", Pool: "c"}}}}},
		Stage{Name: "route", Switch: "router", Cases: []Case{{Value: "x y", Stage: Stage{Pool: "a"}}}, Default: &Stage{Pool: "d"}},
	).WithDefaults()
	require.NoError(t, s.Validate())
	require.Equal(t, []Stage{{Name: "score.a", Pool: "a"}, {Name: "score.two.b", Pool: "b"}, {Name: "score.two.last", Pool: "c"}, {Name: "route", Pool: "router"}, {Name: "route.a", Pool: "a"}, {Name: "route.d", Pool: "d"}}, s.StagePools())
	require.Equal(t, []string{"a", "b", "c", "router", "d"}, s.Pools())
	require.Equal(t, "a", s.Pool)
}

// P3: stages have windows of their own, which are settings, by their names.
func TestStages_P3_Windows(t *testing.T) {
	t.Parallel()
	s := pipelineSpec(
		Stage{Name: "clean", Pool: "awk", Window: 7},
		Stage{Name: "score", Ensemble: []Stage{{Pool: "a"}, {Pool: "b"}}},
		Stage{Name: "route", Switch: "router", Window: 2, Cases: []Case{{Value: "x", Stage: Stage{Pool: "a"}}}},
	).WithDefaults()
	require.NoError(t, s.Validate())
	require.Equal(t, map[string]int{"clean": 7, "score.a": 0, "score.b": 0, "route": 2, "route.a": 0}, s.Settings().Windows)

	var change Settings
	err := change.Parse([]string{"clean.window=auto", "score.a.window=3", "window=9"})
	require.NoError(t, err)
	require.False(t, change.IsZero())
	require.NoError(t, s.CheckSettings(change))
	changed := s.With(change)
	require.Equal(t, map[string]int{"clean": 0, "score.a": 3, "score.b": 0, "route": 2, "route.a": 0}, changed.Settings().Windows)
	require.Equal(t, 9, changed.Window)
	require.Equal(t, 7, s.Stages[0].Window, "the spec itself stays")
	require.Equal(t, changed, s.With(changed.Settings()), "a resumed job has the settings that were in force")

	for text, want := range map[string]string{
		"score.window=3": "score.window: no pool runs a stage of that name: use clean, score.a, score.b, route, route.a",
		"x.window=3":     "x.window: no pool runs",
	} {
		var change Settings
		err := change.Parse([]string{text})
		require.NoError(t, err)
		require.ErrorContains(t, s.CheckSettings(change), want)
	}
	require.ErrorContains(t, s.CheckSettings(Settings{Windows: map[string]int{"clean": -1}}), "Stage.Window -1")
	require.ErrorContains(t, valid().CheckSettings(Settings{Windows: map[string]int{"clean": 1}}), "the job has no stages")
	err = new(Settings).Parse([]string{"clean.window=0", ".window=3"})
	require.ErrorContains(t, err, "clean.window 0: use 1 to 10000, or auto")
	require.ErrorContains(t, err, `".window": unknown setting`)
	require.True(t, Settings{}.IsZero())
}

// P8: a report shows each stage, and how fast it is.
func TestStages_P8_Reports(t *testing.T) {
	t.Parallel()
	s := pipelineSpec(Stage{Name: "clean", Pool: "awk", Window: 7}, Stage{Name: "score", Pool: "models"}).WithDefaults()
	r := Report{Outcomes: Outcomes{Stages: s.StageReports()}, Started: time.Unix(1000, 0)}
	require.Equal(t, []StageReport{{Stage: "clean", Pool: "awk", Window: 7}, {Stage: "score", Pool: "models"}}, r.Stages)
	r.Stages = []StageReport{
		{Stage: "clean", Pool: "awk", Window: 7, Waiting: 11, InFlight: 22, Batches: 33, Done: 440, Failed: 55, Busy: 6 * time.Second},
		{Stage: "score", Pool: "models", Done: 30, Busy: 18 * time.Second},
	}
	items, share := r.StageSpeed(r.Stages[0], time.Unix(1010, 0))
	require.InDelta(t, 44, items, 1e-9)
	require.InDelta(t, 0.25, share, 1e-9)
	require.Equal(t, "stage clean (pool awk): 11 batches waiting · 22 in flight of at most 7 · 440 items done · 55 failed", r.Stages[0].String())
}
