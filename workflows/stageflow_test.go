package workflows

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// passOn makes the execution of a stage pass on what it has done; it has not the last word unless the stage is the
// last.
func (x *execution) passOn() {
	n := x.result.Entry.Count
	if x.result.Rest != nil {
		x.result.Rest.From = x.in.Batch.From
	}
	x.result.Totals.OK = 0
	if x.in.Batch.From != nil {
		x.result.Totals.Between -= n
	}
	if x.in.Stage.Last {
		x.result.Totals.OK = n
		return
	}
	x.result.Totals.Between += n
	x.result.Totals.InputBytes = 0
	x.result.Written = &wire.Part{Number: x.in.Stage.Writes, Token: x.id, First: x.in.Batch.First, Count: n, Format: "jsonl"}
}

// inStage is how many executions of a stage are in flight.
func (w *world) inStage(name string) int {
	n := 0
	for _, x := range w.waiting {
		if x.in.Stage.Name == name {
			n++
		}
	}
	return n
}

// P3: whatever the windows of the job and of its stages, over any number of legs, with rests and failures, everything
// is done, and no stage has more in flight than its window.
func TestStageWindows_P3_OverLegs(t *testing.T) {
	t.Parallel()
	for round := range uint64(12) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			random := jobtest.Seeded(t, 7+round)
			w := setup(t, 2000)
			w.pageLimit = 10 + random.IntN(60)
			w.spec.Window = 1 + random.IntN(100)
			w.spec.Backoff = 100 * time.Millisecond
			w.spec.Pool = ""
			w.spec.Stages = []job.Stage{{Name: "a", Pool: "thumbs"}, {Name: "b", Pool: "second"}, {Name: "c", Pool: "third"}}
			for i := range w.spec.Stages {
				if random.IntN(3) > 0 {
					w.spec.Stages[i].Window = 1 + random.IntN(12)
				}
			}
			w.spec = w.spec.WithDefaults()
			w.process = func(x *execution) {
				x.took = time.Duration(1+random.IntN(3000)) * time.Millisecond
				if n := x.in.Batch.Count; n > 1 && random.IntN(5) == 0 {
					x.rests(1 + random.Int64N(n-1))
				}
				x.passOn()
				if x.in.Batch.First%70 == 0 && random.IntN(3) == 0 {
					x.fails(fmt.Errorf("not yet"))
				}
				for _, stage := range w.spec.Stages {
					if stage.Window > 0 {
						require.LessOrEqual(t, w.inStage(stage.Name), stage.Window, "stage %s", stage.Name)
					}
				}
			}
			w.spec.Attempts = 100
			report := w.mustRun()
			require.EqualValues(t, 2000, report.OK)
			require.Zero(t, report.Between)
			for _, stage := range report.Stages {
				require.EqualValues(t, 2000, stage.Done, stage.Stage)
				require.Zero(t, stage.Waiting+stage.InFlight)
			}
		})
	}
}

// P3: the window of a stage can be changed while legs run: a smaller one as batches end, a larger one at once.
func TestStageWindows_P3_Set(t *testing.T) {
	t.Parallel()
	w := setup(t, 6000)
	w.pageLimit, w.spec.Window, w.took = 100, 30, time.Second
	w.spec.Pool = ""
	w.spec.Stages = []job.Stage{{Name: "a", Pool: "thumbs"}, {Name: "b", Pool: "second", Window: 2}}
	w.spec = w.spec.WithDefaults()
	most := map[string]int{}
	w.process = func(x *execution) {
		x.passOn()
		switch s := x.seconds(); {
		case s < 50:
			most["first"] = max(most["first"], w.inStage("b"))
		case s > 53 && s < 100:
			most["wide"] = max(most["wide"], w.inStage("b"))
		case s > 103 && s < 150:
			most["narrow"] = max(most["narrow"], w.inStage("b"))
		}
	}
	var wide, narrow, auto bool
	set := func(after time.Duration, window int, done *bool) {
		w.at(after, func() {
			w.env.UpdateWorkflow(wire.UpdateSet, fmt.Sprint(after), accept(t, done), job.Settings{Windows: map[string]int{"b": window}})
		})
	}
	set(50*time.Second, 9, &wide)
	set(100*time.Second, 1, &narrow)
	set(150*time.Second, 0, &auto)
	report := w.mustRun()
	require.True(t, wide && narrow && auto)
	require.Equal(t, map[string]int{"first": 2, "wide": 9, "narrow": 1}, most)
	require.Zero(t, report.Settings.Windows["b"])
	require.EqualValues(t, 6000, report.Stages[1].Done)
}
