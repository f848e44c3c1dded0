package calls

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// newCaller returns a caller of a handler, without limits of time.
func newCaller(t *testing.T, h Handler, attempts int) *Caller {
	t.Helper()
	m := StartWatch(t.Context(), WatchLimits{})
	t.Cleanup(m.Stop)
	lane := m.Lane()
	t.Cleanup(lane.Close)
	return &Caller{
		Handler: h, Lane: lane, Answer: &Answer{}, Place: &AnyPlace{}, Observer: Unobserved{},
		Limits: wire.CallLimits{Attempts: attempts, ItemAttempts: 1, Backoff: time.Millisecond},
	}
}

func items(n int) []Item {
	all := make([]Item, n)
	for i := range all {
		all[i] = Item{Ordinal: int64(i), Data: []byte(fmt.Sprint(i))}
	}
	return all
}

// failing returns a handler whose calls fail as a whole when they hold a bad item.
func failing(bad func(ordinal int64) error) *fake {
	return &fake{call: func(c *Call) error {
		_ = echo(c) // what a failed call has added does not count
		for _, item := range c.Items {
			if err := bad(item.Ordinal); err != nil {
				return err
			}
		}
		return nil
	}}
}

// requireOutcomes fails unless exactly the bad items have failed and the others have their results.
func requireOutcomes(t *testing.T, c *Caller, n int, bad map[int64]bool) {
	t.Helper()
	require.Equal(t, n, c.Answer.Len())
	var want strings.Builder
	all := outcomes(c.Answer)
	for i := range n {
		o := all[i]
		if bad[int64(i)] {
			require.NotNil(t, o.Fault, "item %d", i)
			require.Equal(t, o.start, o.End)
			require.Equal(t, want.Len(), o.End, "where its result would have been")
			continue
		}
		require.Nil(t, o.Fault, "item %d", i)
		require.Equal(t, fmt.Sprintf("%d\n", i), string(c.Answer.Buf[o.start:o.End]))
		fmt.Fprintf(&want, "%d\n", i)
	}
	require.Equal(t, want.String(), string(c.Answer.Buf))
}

// depth is how often n items can be halved: log2(n), rounded up.
func depth(n int) int { return bits.Len(uint(n - 1)) }

// K8: one bad item among n costs at most 2·log2(n)+attempts extra calls.
func TestCaller_OneBadItem(t *testing.T) {
	t.Parallel()
	random := jobtest.Seeded(t, 11)
	try := func(n, position, attempts int) {
		bad := map[int64]bool{int64(position): true}
		h := failing(func(ordinal int64) error {
			if bad[ordinal] {
				return errors.New("bad")
			}
			return nil
		})
		c := newCaller(t, h, attempts)
		c.Limits.Backoff = 0
		require.NoError(t, c.Run(items(n)))
		requireOutcomes(t, c, n, bad)
		require.LessOrEqual(t, h.calls()-1, 2*depth(n)+attempts, "n %d, position %d, attempts %d", n, position, attempts)
		fault := outcomes(c.Answer)[position]
		require.Equal(t, job.KindError, fault.Fault.Kind)
		require.GreaterOrEqual(t, int(fault.Tries), attempts)
	}
	for n := 1; n <= 33; n++ {
		for position := range n {
			try(n, position, 1+position%3)
		}
	}
	for range 30 {
		n := 1 + random.IntN(5000)
		try(n, random.IntN(n), 1+random.IntN(4))
	}
}

// K8: a call of which it is known that it fails again is halved at once, and an item of which it is known is not tried
// again.
func TestCaller_FinalFault(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 33; n++ {
		for position := range n {
			h := failing(func(ordinal int64) error {
				if ordinal == int64(position) {
					return &Fault{Kind: job.KindError, Final: true}
				}
				return nil
			})
			c := newCaller(t, h, 3)
			require.NoError(t, c.Run(items(n)))
			requireOutcomes(t, c, n, map[int64]bool{int64(position): true})
			require.LessOrEqual(t, h.calls()-1, 2*depth(n), "n %d, position %d", n, position)
			tries := outcomes(c.Answer)[position].Tries
			require.LessOrEqual(t, int(tries), depth(n)+1)
			require.Zero(t, c.Retries)
		}
	}
}

func TestCaller_SeveralBadItems(t *testing.T) {
	t.Parallel()
	random := jobtest.Seeded(t, 12)
	for range 60 {
		n, attempts := 1+random.IntN(300), 1+random.IntN(3)
		bad := map[int64]bool{}
		for range 1 + random.IntN(6) {
			bad[random.Int64N(int64(n))] = true
		}
		h := failing(func(ordinal int64) error {
			if bad[ordinal] {
				return &Fault{Kind: job.KindCrash, Err: job.Error{Type: "Crash", Message: "exit status 1"}}
			}
			return nil
		})
		c := newCaller(t, h, attempts)
		c.Limits.Backoff = 0
		require.NoError(t, c.Run(items(n)))
		requireOutcomes(t, c, n, bad)
		require.LessOrEqual(t, h.calls()-1, attempts+len(bad)*(2*depth(n)+1))
		require.Positive(t, c.Crashes)
		if n > 1 {
			require.Positive(t, c.Isolations)
		}
	}
}

func TestCaller_AllBad(t *testing.T) {
	t.Parallel()
	h := failing(func(int64) error { return errors.New("nothing works") })
	c := newCaller(t, h, 2)
	require.NoError(t, c.Run(items(50)))
	bad := map[int64]bool{}
	for i := range int64(50) {
		bad[i] = true
	}
	requireOutcomes(t, c, 50, bad)
	require.Zero(t, c.Calls, "none was answered")
	require.LessOrEqual(t, h.calls(), 2+50*3)
}

// B6: another number of results than items is a failure of that call, and narrowed down like any.
func TestCaller_WrongLength(t *testing.T) {
	t.Parallel()
	for _, extra := range []int{-1, +1, +5} {
		h := &fake{call: func(c *Call) error {
			for _, item := range c.Items {
				switch {
				case item.Ordinal != 7:
					c.Answer.Line(item.Data)
				case extra > 0:
					for range 1 + extra {
						c.Answer.Line(item.Data)
					}
				}
			}
			return nil
		}}
		c := newCaller(t, h, 3)
		require.NoError(t, c.Run(items(20)))
		requireOutcomes(t, c, 20, map[int64]bool{7: true})
		fault := outcomes(c.Answer)[7].Fault
		require.Equal(t, job.KindLength, fault.Kind)
		require.Contains(t, fault.Err.Message, "given 1 item and answered")
	}
}

func TestCaller_NoAnswerAtAll(t *testing.T) {
	t.Parallel()
	h := &fake{call: func(*Call) error { return nil }}
	c := newCaller(t, h, 1)
	require.NoError(t, c.Run(items(3)))
	requireOutcomes(t, c, 3, map[int64]bool{0: true, 1: true, 2: true})
}

// K2: a call that fails now and then is retried and costs no item.
func TestCaller_TransientFailures(t *testing.T) {
	t.Parallel()
	for fails := range 3 {
		left := fails
		h := &fake{}
		h.call = func(c *Call) error {
			if left--; left >= 0 {
				c.Answer.Line([]byte("of the call that failed"))
				return errors.New("busy")
			}
			return echo(c)
		}
		c := newCaller(t, h, 3)
		require.NoError(t, c.Run(items(10)))
		requireOutcomes(t, c, 10, nil)
		require.EqualValues(t, fails, c.Retries)
		require.EqualValues(t, 1, c.Calls)
		require.Zero(t, c.Isolations)
	}
}

// A half that fails by accident is halved in turn, and a single item gets one try more.
func TestCaller_TransientFailureOfAHalf(t *testing.T) {
	t.Parallel()
	tries := map[string]int{}
	h := &fake{call: func(c *Call) error {
		key := fmt.Sprintf("%d+%d", c.Items[0].Ordinal, len(c.Items))
		tries[key]++
		if len(c.Items) == 4 || key == "0+1" && tries[key] == 1 || key == "0+2" {
			return errors.New("busy")
		}
		return echo(c)
	}}
	c := newCaller(t, h, 1)
	require.NoError(t, c.Run(items(4)))
	requireOutcomes(t, c, 4, nil)
	require.Equal(t, map[string]int{"0+4": 1, "0+2": 1, "0+1": 2, "1+1": 1, "2+2": 1}, tries)
}

func TestCaller_NoItemsNoCall(t *testing.T) {
	t.Parallel()
	h := &fake{}
	c := newCaller(t, h, 1)
	require.NoError(t, c.Run(nil))
	require.Zero(t, h.calls())
	require.Zero(t, c.Calls)
}

func TestCaller_Statistics(t *testing.T) {
	t.Parallel()
	c := newCaller(t, &fake{}, 1)
	for _, n := range []int{5, 2, 9} {
		require.NoError(t, c.Run(items(n)))
	}
	require.EqualValues(t, 3, c.Calls)
	require.EqualValues(t, 16, c.CallItems)
	require.EqualValues(t, 2, c.CallMin)
	require.EqualValues(t, 9, c.CallMax)
}

// Items that a handler failed by itself are outcomes like others; those of them whose own timer
// expired are counted.
func TestCaller_ItemsFailedByTheHandler(t *testing.T) {
	t.Parallel()
	h := &fake{each: func(c *Call, item Item) {
		switch item.Ordinal {
		case 1:
			c.Answer.Fail(&Fault{Kind: job.KindExpired}, 1)
		case 2:
			c.Answer.Drop()
		case 3:
			c.Answer.Fail(&Fault{Kind: job.KindError}, 2)
		default:
			c.Answer.Line(item.Data)
		}
	}}
	c := newCaller(t, h, 3)
	require.NoError(t, c.Run(items(5)))
	require.Equal(t, 1, h.calls())
	require.Equal(t, 5, c.Answer.Len())
	require.EqualValues(t, 1, c.Expiries)
	require.Zero(t, c.Retries)
	require.Equal(t, "0\n4\n", string(c.Answer.Buf))
}

// What was answered when the batch had to end stays; the items after it have no outcome.
func TestCaller_EndsInTheMiddle(t *testing.T) {
	t.Parallel()
	t.Run("of a call", func(t *testing.T) {
		t.Parallel()
		c := newCaller(t, nil, 3)
		c.Handler = &fake{call: func(call *Call) error {
			call.Answer.Line([]byte("0"))
			call.Answer.Line([]byte("1"))
			c.Lane.watch.EndSoon()
			return nil
		}}
		require.ErrorIs(t, c.Run(items(10)), ErrEnding)
		requireOutcomes(t, c, 2, nil)
		require.EqualValues(t, 2, c.CallItems)
	})
	t.Run("before the first item of a call", func(t *testing.T) {
		t.Parallel()
		c := newCaller(t, nil, 3)
		c.Handler = &fake{call: func(*Call) error { c.Lane.watch.EndSoon(); return nil }}
		require.ErrorIs(t, c.Run(items(10)), ErrEnding)
		require.Zero(t, c.Answer.Len())
		require.Zero(t, c.Calls, "no call was answered")
	})
	t.Run("of halving", func(t *testing.T) {
		t.Parallel()
		c := newCaller(t, nil, 1)
		h := failing(func(ordinal int64) error {
			if ordinal == 9 {
				return errors.New("bad")
			}
			return nil
		})
		inner := h.call
		h.call = func(call *Call) error {
			if len(call.Items) == 4 && call.Items[0].Ordinal == 8 {
				c.Lane.watch.EndSoon()
			}
			return inner(call)
		}
		c.Handler = h
		require.ErrorIs(t, c.Run(items(16)), ErrEnding)
		requireOutcomes(t, c, 8, nil)
	})
	t.Run("while it waits to try again", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			c := newCaller(t, failing(func(int64) error { return errors.New("bad") }), 10)
			c.Limits.Backoff = time.Minute
			time.AfterFunc(90*time.Second, func() { c.Lane.watch.EndSoon() })
			began := time.Now()
			require.ErrorIs(t, c.Run(items(4)), ErrEnding)
			require.Equal(t, 90*time.Second, time.Since(began))
			require.Zero(t, c.Answer.Len())
			c.Lane.watch.Stop()
			c.Lane.watch.stopOnce = func() {}
		})
	})
}

// A call that failed because it was cut off is not to blame.
func TestCaller_CutOffIsNoFault(t *testing.T) {
	t.Parallel()
	c := newCaller(t, nil, 3)
	h := &fake{}
	h.call = func(call *Call) error {
		call.Answer.Line([]byte("0"))
		close(c.Lane.watch.ended)
		return errors.New("signal: killed")
	}
	c.Handler = h
	require.ErrorIs(t, c.Run(items(10)), ErrEnding)
	require.Zero(t, c.Answer.Len())
	require.Equal(t, 1, h.calls())
	require.Zero(t, c.Retries)

	c = newCaller(t, &fake{call: func(*Call) error { return fmt.Errorf("calling: %w", ErrEnded) }}, 3)
	require.ErrorIs(t, c.Run(items(10)), ErrEnding)
}

// Too few answers are excused only by the end of the batch.
func TestCaller_TooManyAnswersAreNeverExcused(t *testing.T) {
	t.Parallel()
	c := newCaller(t, nil, 1)
	c.Handler = &fake{call: func(call *Call) error {
		c.Lane.watch.EndSoon()
		for range len(call.Items) + 1 {
			call.Answer.Line([]byte("x"))
		}
		return nil
	}}
	require.NoError(t, c.Run(items(1)))
	requireOutcomes(t, c, 1, map[int64]bool{0: true})
}

// Items that fail alone are counted, and once hope is lost the batch ends with what has its outcome. One success keeps
// it.
func TestCaller_Hope(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		limit    int64
		works    int64 // the item that succeeds; -1: none
		outcomes int
	}{{"lost", 5, -1, 5}, {"a success", 5, 2, 40}, {"a success too late", 5, 30, 5}, {"no limit", 0, -1, 40}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := &fake{call: func(call *Call) error {
				for _, item := range call.Items {
					if item.Ordinal != c.works {
						return errors.New("it never works")
					}
					call.Answer.Line(item.Data)
				}
				return nil
			}}
			caller := newCaller(t, h, 1)
			caller.Hope = NewHope(c.limit)
			err := caller.Run(items(40))
			require.Equal(t, c.outcomes, caller.Answer.Count)
			if c.outcomes < 40 {
				require.ErrorIs(t, err, ErrEnding)
				require.EqualValues(t, c.limit, caller.Alone)
			} else {
				require.NoError(t, err)
			}
		})
	}
}
