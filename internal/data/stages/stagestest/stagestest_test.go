package stagestest

import (
	"testing"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// zeros always makes the simplest choice.
type zeros struct{}

func (zeros) IntN(int) int { return 0 }

// Random pipelines have everything that pipelines can have, within the limit of steps.
func TestStages_HaveAllKinds(t *testing.T) {
	t.Parallel()
	require.Equal(t, []job.Stage{{Name: "s0", Pool: "pool"}}, Stages(zeros{}, 1), "the simplest one")
	found := map[string]bool{}
	var look func(s *job.Stage, depth int)
	look = func(s *job.Stage, depth int) {
		found["within another one"] = found["within another one"] || depth > 2
		found["batch items"] = found["batch items"] || s.BatchItems > 0
		found["window"] = found["window"] || s.Window > 0
		found["ensemble"] = found["ensemble"] || len(s.Ensemble) > 0 && !s.KeepErrors
		found["ensemble with errors"] = found["ensemble with errors"] || len(s.Ensemble) > 0 && s.KeepErrors
		found["switch by field"] = found["switch by field"] || s.ByField()
		found["switch by pool"] = found["switch by pool"] || s.Switch == "router"
		found["default"] = found["default"] || s.Default != nil
		found["sequence"] = found["sequence"] || len(s.Stages) > 1
		for i := range s.Ensemble {
			look(&s.Ensemble[i], depth+1)
		}
		for i := range s.Cases {
			look(&s.Cases[i].Stage, depth+1)
		}
		for i := range s.Stages {
			look(&s.Stages[i], depth+1)
		}
	}
	random := jobtest.Seeded(t, 3)
	for range 50 {
		for _, s := range Stages(random, 20) {
			look(&s, 1)
		}
	}
	for kind, is := range found {
		require.True(t, is, kind)
	}
	require.Len(t, found, 9)
}

// The model of one pipeline, by hand.
func TestModel_ByHand(t *testing.T) {
	t.Parallel()
	m := &Model{Stages: []job.Stage{
		{Name: "both", KeepErrors: true, Ensemble: []job.Stage{{Name: "a", Pool: "p"}, {Name: "b", Pool: "p"}}},
		{Name: "way", Switch: ".k", Cases: []job.Case{{Value: "x", Stage: job.Stage{Name: "x", Pool: "p"}}}},
	}}
	m.Kills = func(stage string) bool { return stage == "both.b" }
	var seen []string
	m.See = func(stage, _ string) { seen = append(seen, stage) }
	require.Equal(t, Ending{Stage: "way", Type: job.ErrorRoute}, m.Run(`{"k":"x"}`), "a list has no field")
	require.Equal(t, []string{"both.a"}, seen)
	m.Stages = m.Stages[1:]
	require.Equal(t, Ending{Value: `{"s":"way.x","k":"` + kindOf(m, "way.x", `{"k":"x"}`) + `","v":{"k":"x"}}`}, m.Run(`{"k":"x"}`))
	require.Equal(t, Ending{Stage: "way", Type: job.ErrorRoute}, m.Run(`{"k":"y"}`))
	m.Failing = 10
	require.Equal(t, Ending{Stage: "way.x", Type: Broken}, m.Run(`{"k":"x"}`))
	m.Failing, m.Dropping = 0, 10
	require.Equal(t, Ending{}, m.Run(`{"k":"x"}`))
}

func kindOf(m *Model, stage, item string) string {
	for _, kind := range Kinds {
		if answer, _ := m.Answer(stage, item); answer == `{"s":"`+stage+`","k":"`+kind+`","v":`+item+`}` {
			return kind
		}
	}
	return ""
}

func TestPlain(t *testing.T) {
	t.Parallel()
	require.Equal(t, `[{"v":["error A","error B"]},null,3]`,
		Plain(`[{"v":[{"error":{"type":"A","message":"{\"error\":"}},{"error":{"type":"B","message":"b"}}]},null,3]`))
}
