package job

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func pipelineSpec(stages ...Stage) Spec {
	return Spec{Name: "nightly", Input: []string{"in.jsonl"}, Output: "out.jsonl", Stages: stages}
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
	for i := range MaxStages + 1 {
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
		{"too many", func(s *Spec) { s.Stages = many }, []string{"Stages 21 stages, those within others counted: use at most 20"}},
		{"an ensemble of one", func(s *Spec) { s.Stages[1] = Stage{Name: "score", Ensemble: []Stage{{Pool: "a"}}} }, []string{"stage 2: Stages an ensemble of one: give it at least two members"}},
		{"members of one name", func(s *Spec) { s.Stages[1] = Stage{Name: "score", Ensemble: []Stage{{Pool: "a"}, {Pool: "a"}}} },
			[]string{`Stages "score.a" is the name of stages 1 and 2: give each its own`}},
		{"two kinds", func(s *Spec) { s.Stages[1].Stages = []Stage{{Pool: "a"}} }, []string{"stage 2: Stages it has several of pool, ensemble, switch and stages"}},
		{"errors of no ensemble", func(s *Spec) { s.Stages[1].KeepErrors = true }, []string{"stage 2: Stages fail-fast is for ensembles"}},
		{"cases without a switch", func(s *Spec) { s.Stages[1].Cases = []Case{{Value: "x", Stage: Stage{Pool: "a"}}} }, []string{"stage 2: Stages cases are for a switch"}},
		{"a switch without cases", func(s *Spec) { s.Stages[1] = Stage{Name: "route", Switch: ".kind"} }, []string{"stage 2: Stages a switch without cases"}},
		{"a case without a pool", func(s *Spec) { s.Stages[1] = Stage{Name: "route", Switch: ".kind", Cases: []Case{{Value: "x"}}} },
			[]string{"stage 1 within route: stage name is empty", "stage 1 within route: pool name is empty"}},
		{"two cases of one value", func(s *Spec) {
			s.Stages[1] = Stage{Name: "route", Switch: "r", Cases: []Case{{Value: "x", Stage: Stage{Pool: "a"}}, {Value: "x", Stage: Stage{Pool: "b"}}}}
		}, []string{`stage 2: Stages "x" is the value of two cases`}},
		{"a bad field", func(s *Spec) {
			s.Stages[1] = Stage{Name: "route", Switch: ".a..b", Cases: []Case{{Value: "x", Stage: Stage{Pool: "a"}}}}
		},
			[]string{`stage 2: Stages switch ".a..b": expected a field such as .kind`}},
		{"a bad router", func(s *Spec) {
			s.Stages[1] = Stage{Name: "route", Switch: "A b", Cases: []Case{{Value: "x", Stage: Stage{Pool: "a"}}}}
		},
			[]string{"stage 2: switch: use a field such as .kind, or a pool: pool name"}},
		{"too many items", func(s *Spec) { s.Stages[1].BatchItems = MaxBatchItems + 1 }, []string{"stage 2: Stages batch-items 10000001: use 1 to 10000000"}},
		{"items of an ensemble", func(s *Spec) {
			s.Stages[1] = Stage{Name: "score", BatchItems: 5, Ensemble: []Stage{{Pool: "a"}, {Pool: "b"}}}
		}, []string{"stage 2: Stages batch-items are for a stage with a pool"}},
		{"too deep", func(s *Spec) {
			for range 5 {
				s.Stages = []Stage{{Name: "deeper", Stages: s.Stages}}
			}
		}, []string{"Stages deeper.deeper.deeper.deeper.deeper: stages are within each other up to 5 deep"}},
		{"a loop", func(s *Spec) { s.Source, s.Input = SourceClock, nil }, []string{"Stages a loop has one handler: use the source files or feed"}},
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
	require.Equal(t, []StagePool{{"score.a", "a"}, {"score.two.b", "b"}, {"score.two.last", "c"}, {"route", "router"}, {"route.a", "a"}, {"route.d", "d"}}, s.StagePools())
	require.Equal(t, []string{"a", "b", "c", "router", "d"}, s.Pools())
	require.Equal(t, "a", s.Pool)
}
