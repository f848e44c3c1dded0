package stages

import (
	"errors"
	"testing"

	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// P2, P3: in memory, too, ensembles and switches make of items what they make of them in a job.
func TestMemory(t *testing.T) {
	t.Parallel()
	spec := job.Spec{Name: "job", Stages: []job.Stage{
		{Name: "both", Ensemble: []job.Stage{{Pool: "a"}, {Pool: "b"}}},
		{Name: "kind", Pool: "kinds"},
		{Name: "route", Switch: ".kind", Cases: []job.Case{{Value: "x", Stage: job.Stage{Pool: "x"}}}},
	}}.WithDefaults()
	given := []Line{{Data: []byte("1")}, {Data: []byte("2")}, {Data: []byte("3")}, {Data: []byte("4")}, {Data: []byte("5")}}
	m := NewMemory(given, records.Text)
	reached := map[string]int{}
	answer := func(step string, i int) Line {
		switch {
		case step == "both.b" && i == 1:
			return Failed(job.Error{Type: "Odd", Message: "b cannot"})
		case step == "both.a" && i == 2, step == "both.b" && i == 2:
			return Dropped()
		case step == "kind" && i == 3:
			return Line{Data: []byte(`{"kind":"y"}`)}
		case step == "kind":
			return Line{Data: []byte(`{"kind":"x"}`)}
		}
		return Line{Data: []byte(`"` + step + `"`)}
	}
	var last []Line
	for _, step := range Compile(spec.Stages) {
		lines, format := m.Read(&step)
		if !step.Gather {
			for i, line := range lines {
				if line.Err == nil {
					reached[step.Name]++
					lines[i] = answer(step.Name, i)
				}
			}
			format = records.JSONL
		}
		require.NoError(t, m.Write(&step, lines, format))
		last = lines
	}
	require.Equal(t, map[string]int{"both.a": 5, "both.b": 5, "kind": 3, "route.x": 2}, reached)
	require.Equal(t, `"route.x"`, string(last[0].Data))
	require.Equal(t, "b cannot", last[1].Lost().Message)
	require.Nil(t, last[2].Lost())
	require.Error(t, last[2].Err, "all have dropped it")
	require.Equal(t, job.ErrorRoute, last[3].Lost().Type)
	require.Equal(t, `"route.x"`, string(last[4].Data))

	none := errors.New("of no step")
	require.ErrorIs(t, m.Write(&Compile(spec.Stages)[0], []Line{{Err: none}}, records.Text), none)
	require.Equal(t, "of no step", Line{Err: none}.Lost().Message)
}
