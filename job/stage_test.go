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
		{"no pool", func(s *Spec) { s.Stages[1].Pool = "" }, []string{"stage 2: pool name is empty"}},
		{"invalid name and pool", func(s *Spec) { s.Stages[0] = Stage{Name: "A b", Pool: "p/q"}; s.Pool = "" }, []string{`stage 1: stage name "A b"`, `stage 1: pool name "p/q"`}},
		{"another pool", func(s *Spec) { s.Pool = "other" }, []string{`Pool "other": leave it out, or name that of the first stage, "awk"`}},
		{"too many", func(s *Spec) { s.Stages = many }, []string{"Stages 21 stages: use at most 20"}},
		{"a feed", func(s *Spec) { s.Source, s.Input = SourceFeed, nil }, []string{"Stages a job with the source feed has one handler"}},
		{"a loop", func(s *Spec) { s.Source, s.Input = SourceClock, nil }, []string{"Stages a job with the source clock has one handler"}},
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
