package pipeline

import (
	"reflect"
	"testing"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// What a stage says of itself in numbers reaches the executions of its batches. A window is the dispatcher's.
func TestProgram_EveryNumberOfAStageCounts(t *testing.T) {
	t.Parallel()
	given := func(s job.Stage) (wire.ProcessInput, int64) {
		p := compiled(t, job.Stage{Name: "first", Pool: "f"}, s)
		var in wire.ProcessInput
		p[1].Adjust(&in)
		return in, p[1].Items
	}
	plain, items := given(job.Stage{Name: "own", Pool: "p"})
	stage := reflect.TypeFor[job.Stage]()
	numbers := 0
	for i := range stage.NumField() {
		f := stage.Field(i)
		if f.Name == "Window" || !reflect.Zero(f.Type).CanInt() {
			continue
		}
		numbers++
		s := job.Stage{Name: "own", Pool: "p"}
		reflect.ValueOf(&s).Elem().Field(i).SetInt(7)
		in, own := given(s)
		require.False(t, reflect.DeepEqual(in, plain) && own == items, "Stage.%s changes nothing", f.Name)
	}
	require.Positive(t, numbers)
}
