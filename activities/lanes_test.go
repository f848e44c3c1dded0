package activities

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// several are slots of which each makes so many calls at once.
func several(n int) Options { return Options{Slots: calls.AnySlot{Concurrency: n}} }

// leftOf gives out slots and keeps what was reported last as left.
type leftOf struct {
	calls.Slots
	left atomic.Int64
}

func (s *leftOf) Take(ctx context.Context, o calls.Occupant) (calls.Slot, error) {
	slot, err := s.Slots.Take(ctx, o)
	s.left.Store(o.Items)
	return &leftSlot{slot, s}, err
}

type leftSlot struct {
	calls.Slot
	of *leftOf
}

func (s *leftSlot) Left(items int64) { s.of.left.Store(items) }

// B9: calls are made at once, as many as the slot has places for, and results enter the part in order whatever their
// calls take.
func TestProcess_CallsAtOnce(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(200))
	f.spec.BatchItems = 200
	synctest.Test(t, func(t *testing.T) {
		f.t = t
		random := jobtest.Seeded(t, 1)
		var mu sync.Mutex
		now, most := 0, 0
		f.serve(&callstest.Handler{Size: calls.CallSize{Items: 1}, Each: func(c *calls.Call, item calls.Item) {
			mu.Lock()
			now++
			most = max(most, now)
			wait := time.Duration(1+random.IntN(100)) * time.Millisecond
			mu.Unlock()
			time.Sleep(wait)
			mu.Lock()
			now--
			mu.Unlock()
			c.Answer.Line(item.Data)
		}}, several(50))
		began := time.Now()
		entry := f.process(f.plan()[0]).Entry
		require.Equal(t, 50, most)
		require.Less(t, time.Since(began), 500*time.Millisecond)
		require.Equal(t, jobtest.Lines(200), f.mustGet(ledger.ResultsKey(f.ref.Run, entry)))
		f.acts.Close()
	})
}

// B9: one slow item holds up nothing but its place in the order.
func TestProcess_SlowItemHoldsNothingUp(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(1000))
	f.spec.BatchItems = 1000
	synctest.Test(t, func(t *testing.T) {
		f.t = t
		f.serve(&callstest.Handler{Size: calls.CallSize{Items: 1}, Each: func(c *calls.Call, item calls.Item) {
			wait := 10 * time.Millisecond
			if item.Ordinal == 3 {
				wait = 6 * time.Second
			}
			time.Sleep(wait)
			c.Answer.Line(item.Data)
		}}, several(2))
		began := time.Now()
		entry := f.process(f.plan()[0]).Entry
		require.Less(t, time.Since(began), 10*time.Second, "9.99 s of calls beside it, in one lane")
		require.Equal(t, jobtest.Lines(1000), f.mustGet(ledger.ResultsKey(f.ref.Run, entry)))
		f.acts.Close()
	})
}

// ending runs the only batch of the fixture, so many calls at once. The handler can have the batch end.
func (f *fixture) ending(atOnce int, each func(c *calls.Call, item calls.Item, end func())) wire.ProcessResult {
	f.t.Helper()
	ctx, stop := context.WithCancel(f.t.Context())
	defer stop()
	handler := &callstest.Handler{Size: calls.CallSize{Items: 1}, Each: func(c *calls.Call, item calls.Item) { each(c, item, stop) }}
	f.serve(handler, several(atOnce))
	result, err := f.acts.Process(ctx, f.input(f.plan()[0]))
	require.NoError(f.t, err)
	return result
}

// S2, B9: at a stop the calls in hand end, and what was done behind one of them is recorded once it has.
func TestProcess_StopClosesHoles(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(100))
	f.spec.BatchItems, f.spec.Grace = 100, time.Minute
	synctest.Test(t, func(t *testing.T) {
		f.t = t
		result := f.ending(10, func(c *calls.Call, item calls.Item, end func()) {
			switch item.Ordinal {
			case 0:
				time.Sleep(10 * time.Second)
			case 20:
				end()
			}
			time.Sleep(time.Millisecond)
			c.Answer.Line(item.Data)
		})
		require.GreaterOrEqual(t, result.Entry.Count, int64(20))
		require.Less(t, result.Entry.Count, int64(40))
		require.Zero(t, result.Totals.Repeated)
		require.Equal(t, jobtest.Lines(int(result.Entry.Count)), f.mustGet(ledger.ResultsKey(f.ref.Run, result.Entry)))
		require.Equal(t, 100-result.Entry.Count, result.Rest.Count)
		f.acts.Close()
	})
}

// B9: what was done behind an item that does not end in time is not recorded: it is part of the rest, and counted.
func TestProcess_HoleStaysOpen(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(100))
	f.spec.BatchItems, f.spec.Grace = 100, time.Second
	synctest.Test(t, func(t *testing.T) {
		f.t = t
		result := f.ending(10, func(c *calls.Call, item calls.Item, end func()) {
			switch item.Ordinal {
			case 5:
				<-c.Begin().Done()
				return
			case 30:
				end()
			}
			time.Sleep(time.Millisecond)
			c.Answer.Line(item.Data)
		})
		require.EqualValues(t, 5, result.Entry.Count)
		require.EqualValues(t, 95, result.Rest.Count)
		require.GreaterOrEqual(t, result.Totals.Repeated, int64(25))
		require.Less(t, result.Totals.Repeated, int64(45))
		require.Equal(t, jobtest.Lines(5), f.mustGet(ledger.ResultsKey(f.ref.Run, result.Entry)))
		f.acts.Close()
	})
}

// T17: an expired call ends alone, whatever is called beside it.
func TestProcess_ExpiryEndsItsCallOnly(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(50))
	f.spec.BatchItems, f.spec.Attempts = 50, 2
	synctest.Test(t, func(t *testing.T) {
		f.t = t
		var cut atomic.Int64
		f.serve(&callstest.Handler{Size: calls.CallSize{Items: 1}, Do: func(c *calls.Call) error {
			ctx := c.Begin()
			wait := 9 * time.Second
			if c.Items[0].Ordinal == 17 {
				wait = time.Hour
			}
			select {
			case <-time.After(wait):
				return callstest.Echo(c)
			case <-ctx.Done():
				cut.Add(1)
				return calls.CauseOf(ctx, ctx.Err())
			}
		}}, several(16))
		in := f.input(f.plan()[0])
		in.Calls.Timeout = 10 * time.Second
		result, err := f.acts.Process(t.Context(), in)
		require.NoError(t, err)
		require.EqualValues(t, 2, cut.Load(), "one item, twice")
		require.EqualValues(t, 1, result.Entry.Failed)
		require.EqualValues(t, 49, result.Entry.OK)
		require.EqualValues(t, 2, result.Totals.Expiries)
		require.EqualValues(t, 17, result.FirstError.Item)
		require.Equal(t, job.KindExpired, result.FirstError.Kind)
		f.acts.Close()
	})
}

// B9, G8: results behind an item that takes long are held back up to a limit, and then nothing more is begun. The limit
// holds whatever the results' size. No other test runs beside this one: its memory is the process's.
func TestProcess_HoldsBackSoMuch(t *testing.T) {
	const size, atOnce = 1 << 20, 20
	f := setup(t, "in.jsonl", jobtest.Lines(400))
	f.spec.BatchItems = 400
	result := bytes.Repeat([]byte("x"), size)
	synctest.Test(t, func(t *testing.T) {
		f.t = t
		var begun atomic.Int64
		release := make(chan struct{})
		slots := &leftOf{Slots: calls.AnySlot{Concurrency: atOnce}}
		f.serve(&callstest.Handler{Size: calls.CallSize{Items: 1}, Each: func(c *calls.Call, item calls.Item) {
			begun.Add(1)
			if item.Ordinal == 1 {
				<-release
			}
			c.Answer.Line(result)
		}}, Options{Slots: slots})
		batch := f.plan()[0]
		ended := make(chan wire.ProcessResult)
		go func() { ended <- f.process(batch) }()
		synctest.Wait()
		require.GreaterOrEqual(t, begun.Load(), int64(heldBack/size-1))
		require.LessOrEqual(t, begun.Load(), int64(heldBack/size+atOnce), "what had begun before their size was known included")
		runtime.GC()
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		require.Less(t, memory.HeapAlloc, uint64(10*heldBack))
		require.Zero(t, slots.left.Load(), "the slot has room for other batches")
		close(release)
		require.EqualValues(t, 400, (<-ended).Entry.OK)
		f.acts.Close()
	})
}

// B9: the output of any handler with any concurrency equals that with one, with items that fail, have no result, are
// invalid, crash their calls, or take their time; also if the batch ends anywhere and its rest is run.
func TestProcess_AtOnceAsOneByOne(t *testing.T) {
	t.Parallel()
	seeds := 60
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		random := jobtest.Seeded(t, uint64(seed))
		items := []int{0, 1, 10, 300, 2000}[random.IntN(5)]
		var input strings.Builder
		for i := range items {
			if random.IntN(20) == 0 {
				fmt.Fprintf(&input, "{invalid %d\n", i)
			} else {
				fmt.Fprintf(&input, "%d\n", i)
			}
		}
		call, salt := 1+random.IntN(5), random.IntN(1000)
		handler := func(stop func(ordinal int64)) *callstest.Handler {
			return &callstest.Handler{As: calls.Traits{Form: calls.CheckedJSON}, Size: calls.CallSize{Items: call}, Do: func(c *calls.Call) error {
				for _, item := range c.Items {
					switch kind := (int(item.Ordinal)*7919 + salt) % 13; {
					case kind == 0 && len(c.Items) > 1:
						return errors.New("a bad item")
					case kind == 0:
						c.Answer.Fail(&calls.Fault{Kind: job.KindError, Err: job.Error{Type: "Bad"}}, 1)
					case kind == 1:
						c.Answer.Drop()
					case kind == 2 && item.Ordinal < 400: // in a large input for a while
						time.Sleep(time.Duration(item.Ordinal%5) * time.Millisecond)
						fallthrough
					default:
						c.Answer.Line(append(item.Data, "!"...))
					}
					stop(item.Ordinal)
				}
				return nil
			}}
		}
		run := func(atOnce int, ends bool) (string, job.Totals) {
			f := setup(t, "in.jsonl", input.String())
			f.spec.BatchItems = 1 + random.Int64N(int64(items)+1)
			var total job.Totals
			var entries []wire.Entry
			for _, b := range f.plan() {
				for rest := &b; rest != nil; {
					ctx, end := context.WithCancel(t.Context())
					at := int64(-1)
					if ends && random.IntN(3) == 0 {
						at = rest.First + random.Int64N(rest.Count)
					}
					f.serve(handler(func(ordinal int64) {
						if ordinal == at {
							end()
						}
					}), several(atOnce))
					in := f.input(*rest)
					in.Grace = time.Minute
					result, err := f.acts.Process(ctx, in)
					end()
					require.NoError(t, err)
					total.Add(result.Totals)
					entries = append(entries, result.Entry)
					rest = result.Rest
				}
			}
			f.finish(f.commit(nil, entries...))
			return f.read("out.jsonl"), total
		}
		want, one := run(1, false)
		got, many := run(2+random.IntN(16), true)
		require.Equal(t, want, got, "seed %d", seed)
		require.Equal(t, one.OK, many.OK)
		require.Equal(t, one.Failed, many.Failed)
		require.Equal(t, one.Dropped, many.Dropped)
	}
}

// A pace and a worker's rate hold for all calls together, and do not keep those that have begun from going on side by
// side.
func TestProcess_PaceOfCallsAtOnce(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(40))
	f.spec.BatchItems = 40
	synctest.Test(t, func(t *testing.T) {
		f.t = t
		var mu sync.Mutex
		var begun []time.Time
		f.serve(&callstest.Handler{Size: calls.CallSize{Items: 1}, Each: func(c *calls.Call, item calls.Item) {
			mu.Lock()
			begun = append(begun, time.Now())
			mu.Unlock()
			time.Sleep(time.Second)
			c.Answer.Line(item.Data)
		}}, several(20))
		in := f.input(f.plan()[0])
		in.Pace = 10_000 // ten a second
		_, err := f.acts.Process(t.Context(), in)
		require.NoError(t, err)
		for i := 10; i < len(begun); i++ {
			require.GreaterOrEqual(t, begun[i].Sub(begun[i-10]), time.Second)
		}
		require.LessOrEqual(t, begun[39].Sub(begun[0]), 4*time.Second, "nothing waits for calls that have begun")
		f.acts.Close()
	})
}

// A store that fails ends the batch with its error, once the calls in hand have ended; nothing waits for ever.
func TestProcess_FailureEndsAllLanes(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(300))
	f.spec.BatchItems = 300
	var once sync.Once
	f.serve(&callstest.Handler{Size: calls.CallSize{Items: 1}, Each: func(c *calls.Call, item calls.Item) {
		if item.Ordinal == 100 {
			once.Do(func() { f.write("in.jsonl", jobtest.Lines(200)) }) // what is still to be read is gone
		}
		c.Answer.Line(item.Data)
	}}, several(16))
	_, err := f.acts.Process(t.Context(), f.input(f.plan()[0]))
	require.Error(t, err)
}

// A batch's heartbeats name all items that are in hand.
func TestProcess_HintOfCallsAtOnce(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(100))
	f.spec.BatchItems = 100
	e := &execution{acts: f.acts, in: f.input(f.plan()[0]), ctx: t.Context()}
	slot, err := calls.AnySlot{Concurrency: 4}.Take(t.Context(), calls.Occupant{})
	require.NoError(t, err)
	e.slot = slot
	e.watch = calls.StartWatch(t.Context(), calls.WatchLimits{})
	defer e.watch.Stop()
	require.NoError(t, e.open())
	defer e.close()
	f.acts.opts.Handler = &callstest.Handler{Size: calls.CallSize{Items: 3}}
	caller := &calls.Caller{}
	for range 3 {
		e.line.enter()
	}
	first, second, third := e.line.take(), e.line.take(), e.line.take()
	inHand := func() [2]int64 {
		hint := e.whereabouts(nil)
		return [2]int64{hint.First, hint.Count}
	}
	require.Equal(t, [2]int64{0, 9}, inHand())
	finish := func(p *assignment) {
		for range p.items {
			p.answer.Line([]byte("x"))
		}
		e.line.finish(p, caller, nil)
	}
	finish(second)
	require.Equal(t, [2]int64{0, 9}, inHand(), "what is done behind a hole counts as in hand")
	finish(first)
	require.Equal(t, [2]int64{6, 3}, inHand())
	finish(third)
	require.Equal(t, [2]int64{9, 0}, inHand())
}

// The lanes are woken for whatever comes next, by one timer, which ends with the batch.
func TestLine_Waker(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(10))
	slot, err := calls.AnySlot{Concurrency: 4}.Take(t.Context(), calls.Occupant{})
	require.NoError(t, err)
	e := &execution{acts: f.acts, in: f.input(f.plan()[0]), ctx: t.Context(), slot: slot}
	e.watch = calls.StartWatch(t.Context(), calls.WatchLimits{})
	defer e.watch.Stop()
	l := newLine(e)
	now := time.Now()
	later, last := &assignment{due: now.Add(time.Hour)}, &assignment{due: now.Add(2 * time.Hour)}
	l.parked, l.undone = []*assignment{last, {due: now}, later}, 3
	l.assignments = l.parked
	require.Equal(t, later.due, l.nextWake())
	l.wakeIn(time.Hour)
	first := l.wakeAt
	l.wakeIn(2 * time.Hour)
	require.Equal(t, first, l.wakeAt, "it is woken for that before")
	l.wakeIn(time.Minute)
	require.True(t, l.wakeAt.Before(first))
	l.wake()
	require.WithinDuration(t, later.due, l.wakeAt, time.Second)
	l.close()
	require.False(t, l.waker.Stop(), "it has been stopped")
	l.wakeIn(0)
	require.False(t, l.waker.Stop(), "nothing wakes it any more")
}
