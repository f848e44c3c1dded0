package workflows

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
)

// trouble is what happens to the batches of a leg from outside, at random, beside at most one item that ends its worker
// or its process each time. A batch meets, between two outcomes, at most two ends of processes and one death of a
// worker that are not its fault, fewer errors than it has attempts, and a few drains.
type trouble struct {
	w      *world
	random *rand.Rand
	bad    int64 // item; -1: none
	ends   bool  // the bad item ends the whole process, not only its worker
	hints  int   // what heartbeats say of the items in hand: 0 nothing, 1 the truth, 2 anything

	left      map[int64]*budget // by the ends of the batches
	condemned []int64
	log       []string
}

// budget is what may still happen to a batch that has the item first.
type budget struct {
	first                          int64
	restarts, deaths, errs, drains int
}

// newTrouble draws a leg of a few batches, and what happens to it.
func newTrouble(t *testing.T, random *rand.Rand) (tr *trouble, batches int) {
	w := setup(t, 0)
	w.perBatch, batches = 1+random.Int64N(40), 1+random.IntN(3)
	w.spec.Attempts, w.spec.Window = 1+random.IntN(4), 1+random.IntN(3)
	tr = &trouble{w: w, random: random, bad: -1, ends: random.IntN(2) == 0, hints: random.IntN(3), left: map[int64]*budget{}}
	if random.IntN(4) > 0 {
		tr.bad = random.Int64N(w.perBatch * int64(batches))
	}
	w.process = tr.happen
	return tr, batches
}

func (tr *trouble) note(x *execution, what string) {
	tr.log = append(tr.log, fmt.Sprintf("%s: %s, verdict %v", x.options.Summary, what, x.in.Verdict != nil))
}

// details are what a lost execution's last heartbeat says, in which the item was in hand.
func (tr *trouble) details(x *execution, item int64) []any {
	b := x.in.Batch
	switch {
	case tr.hints == 1 && item >= 0:
		return []any{wire.Hint{First: item, Count: 1}}
	case tr.hints == 2 && tr.random.IntN(3) > 0:
		first := b.First + tr.random.Int64N(b.Count)
		return []any{wire.Hint{First: first, Count: 1 + tr.random.Int64N(b.End()-first)}}
	}
	return nil
}

func (tr *trouble) happen(x *execution) {
	b, end := x.in.Batch, x.in.Batch.First+x.takes()
	left := tr.left[b.End()]
	if left == nil || left.first != b.First {
		left = &budget{first: b.First, restarts: 2, deaths: 1, errs: tr.w.spec.Attempts - 1, drains: 2}
		tr.left[b.End()] = left
	}
	switch what := tr.random.IntN(12); {
	case what == 0 && left.restarts > 0:
		left.restarts--
		tr.note(x, "restart")
		x.fails(orphaned(tr.details(x, -1)...))
	case what == 1 && left.deaths > 0:
		left.deaths--
		tr.note(x, "death")
		x.fails(temporal.NewHeartbeatTimeoutError(tr.details(x, -1)...))
	case what <= 3 && left.errs > 0:
		left.errs--
		tr.note(x, "error")
		x.fails(transient("no network"))
	case what == 4 && left.drains > 0:
		left.drains--
		tr.note(x, "drain")
		x.rests(0)
	case x.in.Verdict != nil:
		tr.note(x, "recorded")
		tr.condemned = append(tr.condemned, b.First)
		x.records()
	case b.First <= tr.bad && tr.bad < end:
		tr.note(x, "the bad item")
		if x.fails(temporal.NewHeartbeatTimeoutError(tr.details(x, tr.bad)...)); tr.ends {
			x.fails(orphaned(tr.details(x, tr.bad)...))
		}
	case what <= 6:
		tr.note(x, "rest")
		x.rests(1 + tr.random.Int64N(end-b.First))
	default:
		tr.note(x, "done")
		x.result = x.done(end - b.First)
	}
}

// Whatever sequence of deaths, errors, ends of processes, drains and rests a batch with at most one bad item meets: the
// job never fails, the bad item is condemned, and no other one is.
func TestD45_DeathsAndErrorsAreDifferentThings(t *testing.T) {
	t.Parallel()
	const seed, runs = 45, 200
	for run := range runs {
		tr, batches := newTrouble(t, rand.New(rand.NewPCG(seed, uint64(run))))
		result, err := tr.w.runLeg(tr.w.legInput(batches))
		require.NoError(t, err)
		require.Nil(t, result.Error, "seed %d, run %d, %d attempts: %q", seed, run, tr.w.spec.Attempts, tr.log)
		want := []int64(nil)
		if tr.bad >= 0 {
			want = []int64{tr.bad}
		}
		require.Equal(t, want, tr.condemned, "seed %d, run %d: %q", seed, run, tr.log)
		require.EqualValues(t, tr.w.perBatch*int64(batches), result.Totals.OK+result.Totals.Failed)
		require.EqualValues(t, len(want), result.Totals.Failed)
	}
}

// The cases that were met, by hand. They are of one batch of two items with three attempts.
func TestD45_Sequences(t *testing.T) {
	t.Parallel()
	death, wrong := heartbeatTimeout, func() error { return transient("no network") }
	restart := func() error { return orphaned() }
	drain := func() error { return nil }
	for _, test := range []struct {
		name   string
		ends   []func() error // of the executions, until all succeed
		failed int64
		kind   string // of the job's error
	}{
		{"two deaths and two errors", []func() error{death, wrong, death, wrong}, 0, ""},
		{"an error while an item is isolated", []func() error{death, death, death, wrong, death, wrong, death, wrong, death}, 1, ""},
		{"two restarts condemn nothing", []func() error{death, death, death, death, restart, restart}, 0, ""},
		{"three do", []func() error{death, death, death, death, restart, restart, restart}, 1, ""},
		{"one death and two restarts", []func() error{death, death, death, death, restart, death, restart}, 0, ""},
		{"a drain before the verdict", []func() error{death, death, death, death, death, death, drain}, 1, ""},
		{"restarts before the verdict", []func() error{death, death, death, death, death, death, restart, restart, restart, restart}, 1, ""},
		{"errors only", []func() error{wrong, wrong, wrong}, 0, job.ErrorExhausted},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, 0)
			w.perBatch, w.spec.Attempts = 2, 3
			w.process = func(x *execution) {
				switch {
				case x.number <= len(test.ends):
					if err := test.ends[x.number-1](); err != nil {
						x.fails(err)
					} else {
						x.rests(0)
					}
				case x.in.Verdict != nil:
					x.records()
				}
			}
			result, err := w.runLeg(w.legInput(1))
			require.NoError(t, err)
			require.Equal(t, test.failed, result.Totals.Failed)
			if test.kind != "" {
				require.Equal(t, test.kind, result.Error.Type)
				return
			}
			require.Nil(t, result.Error)
			require.EqualValues(t, 2-test.failed, result.Totals.OK)
		})
	}
}
