package workflows

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stint-run/stint/workflows/internal/suspicion"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
)

// poisoned has workers die of these items. It returns the items that have been recorded as failed,
// which grow with the run, and how often a worker has died.
func poisoned(t *testing.T, w *world, hint func(x *execution, bad int64) error, bad ...int64) (recorded *[]int64, deaths *int) {
	recorded, deaths = new([]int64), new(int)
	alone := map[int64]int{}
	w.process = func(x *execution) {
		suspects := 0
		for _, other := range w.waiting {
			if other.in.Take > 0 && other.in.Verdict == nil && !other.ended {
				suspects++
			}
		}
		assert.LessOrEqual(t, suspects, 1, "one suspected batch at a time")
		first := x.in.Batch.First
		end := first + x.takes()
		if x.in.Verdict != nil {
			for item := first; item < end; item++ {
				*recorded = append(*recorded, item)
				assert.Equal(t, suspicion.SingleTries, alone[item], "only what runs alone in its worker is condemned")
			}
			x.records()
			return
		}
		for _, item := range bad {
			if first <= item && item < end {
				*deaths++
				if x.in.Alone {
					assert.EqualValues(t, 1, x.takes())
					alone[item]++
				}
				x.fails(hint(x, item))
				return
			}
		}
	}
	return recorded, deaths
}

func noHint(*execution, int64) error { return heartbeatTimeout() }

// K9: exactly the items that their workers die of are recorded as failed; each costs at most
// 2·log2(n) + attempts deaths.
func TestSuspects_Poison(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(41, 0))
	t.Log("seed 41")
	for range 20 {
		size := 1 + random.Int64N(200)
		batches := 1 + random.IntN(5)
		total := size * int64(batches)
		bad := []int64{}
		for range 1 + random.IntN(3) {
			if item := random.Int64N(total); !slices.Contains(bad, item) {
				bad = append(bad, item)
			}
		}
		w := setup(t, 0)
		w.perBatch = size
		w.spec.Attempts = 1 + random.IntN(3)
		recorded, deaths := poisoned(t, w, noHint, bad...)
		result, err := w.runLeg(w.legInput(batches))
		require.NoError(t, err)
		require.Nil(t, result.Error)
		slices.Sort(bad)
		slices.Sort(*recorded)
		require.Equal(t, bad, *recorded, "batches of %d", size)
		require.EqualValues(t, total-int64(len(bad)), result.Totals.OK)
		require.EqualValues(t, len(bad), result.Totals.Failed)
		most := 2*bits.Len64(uint64(size)) + w.spec.Attempts
		require.LessOrEqual(t, *deaths, len(bad)*most)
		require.EqualValues(t, *deaths, result.Totals.Expiries)
		require.Equal(t, job.KindCrash, result.FirstError.Kind)
	}
}

// The last heartbeat says what was in hand: that is suspected first.
func TestSuspects_Hint(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		hint func(x *execution, bad int64) wire.Hint
		most int
	}{
		"right":         {func(_ *execution, bad int64) wire.Hint { return wire.Hint{First: bad - bad%8, Count: 8} }, 2 + 3 + 2},
		"out of date":   {func(x *execution, _ int64) wire.Hint { return wire.Hint{First: x.in.Batch.First, Count: 8} }, 2 + 10 + 2},
		"too far":       {func(x *execution, _ int64) wire.Hint { return wire.Hint{First: 992, Count: 8} }, 2 + 11 + 2},
		"out of bounds": {func(x *execution, _ int64) wire.Hint { return wire.Hint{First: 5000, Count: 8} }, 2 + 10 + 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, 0)
			w.perBatch = 1000
			w.spec.Attempts = 2
			recorded, deaths := poisoned(t, w, func(x *execution, bad int64) error {
				return temporal.NewHeartbeatTimeoutError(test.hint(x, bad))
			}, 777)
			result, err := w.runLeg(w.legInput(1))
			require.NoError(t, err)
			require.Nil(t, result.Error)
			require.Equal(t, []int64{777}, *recorded)
			require.EqualValues(t, 999, result.Totals.OK)
			require.LessOrEqual(t, *deaths, test.most)
		})
	}
}

// K9: a worker that dies while a batch waits for a place in it has not died of the batch's items, not even of one that
// waits to be alone there. If it seems so each time, it is the item after all: it ends its worker before that has
// said that the wait is over.
func TestSuspects_Waiting(t *testing.T) {
	t.Parallel()
	waiting := temporal.NewHeartbeatTimeoutError(wire.Hint{Waiting: true})
	for name, test := range map[string]struct {
		fails  func(x *execution, lost int) error
		failed int64
	}{
		"none is bad": {func(x *execution, lost int) error {
			switch {
			case lost < 2:
				return heartbeatTimeout() // as the other batches of the worker
			case x.in.Alone && lost < 2+9:
				return waiting
			}
			return nil
		}, 0},
		"one is bad": {func(x *execution, _ int) error {
			if x.in.Verdict == nil && x.in.Batch.First <= 2 && x.in.Batch.First+x.takes() > 2 {
				return waiting
			}
			return nil
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, 0)
			w.perBatch, w.spec.Attempts = 4, 2
			lost := 0
			w.process = func(x *execution) {
				if x.in.Verdict != nil {
					x.records()
				} else if err := test.fails(x, lost); err != nil {
					lost++
					x.fails(err)
				}
			}
			result, err := w.runLeg(w.legInput(1))
			require.NoError(t, err)
			require.Nil(t, result.Error)
			require.EqualValues(t, test.failed, result.Totals.Failed)
			require.EqualValues(t, 4-test.failed, result.Totals.OK)
			require.GreaterOrEqual(t, lost, 2+9)
			require.Less(t, lost, 40)
		})
	}
}

// An item that kills the process of the whole job, with all that runs beside it, is found over as many
// restarts: each batch may lose two processes, then it is narrowed down.
func TestSuspects_OfADeadProcess(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(42, 0))
	t.Log("seed 42")
	for range 20 {
		size, batches := 1+random.Int64N(100), 1+random.IntN(6)
		bad := random.Int64N(size * int64(batches))
		w := setup(t, 0)
		w.perBatch, w.spec.Window, w.spec.Attempts = size, 1+random.IntN(3), 1
		hinted := random.IntN(2) == 0
		var recorded []int64
		deaths := 0
		w.process = func(x *execution) {
			first := x.in.Batch.First
			switch {
			case x.in.Verdict != nil:
				recorded = append(recorded, first)
				x.records()
			case first <= bad && bad < first+x.takes():
				deaths++
				for _, beside := range w.waiting {
					beside.fails(orphaned())
				}
				x.fails(orphaned())
				if hinted {
					x.fails(orphaned(wire.Hint{First: bad, Count: 1}))
				}
			}
		}
		result, err := w.runLeg(w.legInput(batches))
		require.NoError(t, err)
		require.Nil(t, result.Error)
		require.Equal(t, []int64{bad}, recorded, "batches of %d", size)
		require.EqualValues(t, size*int64(batches)-1, result.Totals.OK)
		most := dispatch.OrphanTries + bits.Len64(uint64(size)) + 2
		if hinted {
			most = dispatch.OrphanTries + suspicion.EndedTries
		}
		require.LessOrEqual(t, deaths, most)
		require.Equal(t, job.KindCrash, result.FirstError.Kind)
		require.Contains(t, result.FirstError.Error.Message, "the process that ran this has ended")
	}
}

// Deaths that pass leave nothing behind: nothing is recorded as failed.
func TestSuspects_Transient(t *testing.T) {
	t.Parallel()
	for deaths := 1; deaths < 12; deaths++ {
		w := setup(t, 0)
		w.perBatch = 1000
		w.spec.Attempts = 2
		w.process = func(x *execution) {
			if x.number <= deaths {
				x.fails(heartbeatTimeout())
			}
		}
		result, err := w.runLeg(w.legInput(1))
		require.NoError(t, err)
		require.Nil(t, result.Error)
		require.EqualValues(t, 1000, result.Totals.OK)
	}
}

// The last suspect runs alone: a worker that dies of something else would make it look guilty.
func TestSuspects_LastOneAlone(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.perBatch = 4
	w.spec.Attempts, w.spec.Window = 1, 10
	recorded, _ := poisoned(t, w, noHint, 2, 41)
	result, err := w.runLeg(w.legInput(20))
	require.NoError(t, err)
	require.Nil(t, result.Error)
	require.ElementsMatch(t, []int64{2, 41}, *recorded)
	alone := 0
	for _, x := range w.all {
		if strings.Contains(x.options.Summary, "trying its first item alone") {
			alone++
			require.Equal(t, 1, x.beside)
		}
	}
	require.GreaterOrEqual(t, alone, 2)
}

// If not even the verdict can be recorded, it is not the item: the job fails.
func TestSuspects_NothingWorks(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.process = func(x *execution) { x.fails(heartbeatTimeout()) }
	result, err := w.runLeg(w.legInput(1))
	require.NoError(t, err)
	require.Equal(t, job.ErrorExhausted, result.Error.Type)
	require.Less(t, len(w.all), 20)
}
