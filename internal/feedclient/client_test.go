package feedclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/internal/feedclient"
	"github.com/stint-run/stint/internal/feedclient/feedsim"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// with runs a test with a client of a simulated feed, in a bubble: time passes when all wait, and no goroutine is left.
func with(t *testing.T, o feedsim.Options, test func(t *testing.T, f *feedsim.Feed, c *feedclient.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := feedsim.New(o)
		c := feedclient.New(f, feedclient.Options{Token: "t"})
		defer c.Release()
		test(t, f, c)
	})
}

func values(n int, name string) []json.RawMessage {
	items := make([]json.RawMessage, n)
	for i := range items {
		items[i] = json.RawMessage(fmt.Sprintf(`"%s-%d"`, name, i))
	}
	return items
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func put(ctx context.Context, c *feedclient.Client, items []json.RawMessage) error {
	return c.Put(items, false, time.Time{}).Accepted(ctx)
}

func fixed(d time.Duration) func(*rand.Rand) time.Duration {
	return func(*rand.Rand) time.Duration { return d }
}

// A lone call is one exchange: the answer to its put has its result.
func TestCall_IsOneExchange(t *testing.T) {
	t.Parallel()
	with(t, feedsim.Options{Work: fixed(10 * time.Millisecond)}, func(t *testing.T, f *feedsim.Feed, c *feedclient.Client) {
		for i := range 5 {
			start := time.Now()
			r, err := c.Call(within(t, time.Minute), []byte(fmt.Sprint(i)))
			require.NoError(t, err)
			require.JSONEq(t, fmt.Sprintf(`{"of":%d}`, i), string(r.Result))
			require.Equal(t, 10*time.Millisecond, time.Since(start), "nothing is waited for but the item")
		}
		seen := f.Seen()
		require.Equal(t, 5, seen.Exchanges)
		require.Zero(t, seen.Polls)
	})
}

// F7: hundreds of callers share few exchanges, of which never more than three are under way.
func TestCalls_Coalesce(t *testing.T) {
	t.Parallel()
	with(t, feedsim.Options{Capacity: 1000, BatchItems: 100, Work: fixed(20 * time.Millisecond), Delay: 2 * time.Millisecond}, func(t *testing.T, f *feedsim.Feed, c *feedclient.Client) {
		var callers sync.WaitGroup
		for i := range 400 {
			callers.Go(func() {
				for k := range 5 {
					value := fmt.Sprintf(`"%d-%d"`, i, k)
					r, err := c.Call(within(t, time.Minute), []byte(value))
					if err != nil || string(r.Result) != `{"of":`+value+`}` {
						t.Errorf("%s: %s, %v", value, r.Result, err)
					}
				}
			})
		}
		callers.Wait()
		seen := f.Seen()
		require.LessOrEqual(t, seen.MaxUnder, 3)
		require.Less(t, seen.Exchanges, 200, "2,000 calls")
		require.Len(t, seen.Executed, 2000)
	})
}

// Callers that were answered together and need a moment before they call again stay together.
func TestCalls_StayTogether(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	with(t, feedsim.Options{Capacity: 1000, BatchItems: 100, Slots: 1, Work: fixed(20 * time.Millisecond), Delay: 2 * time.Millisecond}, func(t *testing.T, f *feedsim.Feed, c *feedclient.Client) {
		const callers, rounds = 20, 100
		var all sync.WaitGroup
		for i := range callers {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			all.Go(func() {
				for k := range rounds {
					_, err := c.Call(within(t, time.Minute), fmt.Appendf(nil, "%d", k))
					if err != nil {
						t.Error(err)
					}
					time.Sleep(time.Duration(1+random.IntN(2000)) * time.Microsecond) // what it does with the result
				}
			})
		}
		all.Wait()
		seen := f.Seen()
		require.Less(t, seen.Exchanges, 650, "2,000 calls: of those that come together most go together")
	})
}

// Callers that were answered together and do not call again hold nobody up for long.
func TestCalls_HeldBackForNobody(t *testing.T) {
	t.Parallel()
	with(t, feedsim.Options{Capacity: 1000, BatchItems: 100, Work: fixed(20 * time.Millisecond)}, func(t *testing.T, _ *feedsim.Feed, c *feedclient.Client) {
		call := func() time.Duration {
			began := time.Now()
			_, err := c.Call(within(t, time.Minute), []byte("1"))
			require.NoError(t, err)
			return time.Since(began)
		}
		for range 20 {
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() { call() })
			}
			all.Wait()
			require.LessOrEqual(t, call(), 25*time.Millisecond)
		}
	})
}

// Lists that are put within the linger go in one exchange; one that fills it leaves at once.
func TestLinger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := feedsim.New(feedsim.Options{Capacity: 5000})
		c := feedclient.New(f, feedclient.Options{Linger: 10 * time.Millisecond})
		defer c.Release()
		require.NoError(t, put(t.Context(), c, values(1, "first"))) // finds the leg
		before := f.Seen().Exchanges
		start := time.Now()
		var callers sync.WaitGroup
		for i := range 8 {
			time.Sleep(time.Millisecond)
			callers.Go(func() {
				if err := put(t.Context(), c, values(3, fmt.Sprint(i))); err != nil {
					t.Error(err)
				}
			})
		}
		callers.Wait()
		require.Equal(t, 11*time.Millisecond, time.Since(start), "counted from the first")
		require.Equal(t, 1, f.Seen().Exchanges-before)

		start = time.Now()
		require.NoError(t, put(t.Context(), c, values(wire.MaxExchangeItems, "many")))
		require.Zero(t, time.Since(start))
	})
}

// Coalescing refuses nothing that would fit alone, and lists that do not fit are refused by the number.
func TestFull_RefusesNothingThatFits(t *testing.T) {
	t.Parallel()
	for _, unannounced := range []bool{false, true} {
		o := feedsim.Options{Capacity: 8, Slots: 2, Work: fixed(time.Minute), Unannounced: unannounced}
		with(t, o, func(t *testing.T, f *feedsim.Feed, c *feedclient.Client) {
			require.NoError(t, put(t.Context(), c, values(1, "first")))
			require.NoError(t, put(t.Context(), c, values(1, "second")))
			// 6 places are left. All are put at the same time.
			sizes := []int{7, 4, 5, 1, 3, 1, 1}
			lists := make([]*feedclient.List, len(sizes))
			for i, n := range sizes {
				lists[i] = c.Put(values(n, fmt.Sprintf("list%d", i)), false, time.Time{})
			}
			accepted, total := 0, 0
			for i, l := range lists {
				err := l.Accepted(t.Context())
				if err == nil {
					accepted++
					total += sizes[i]
					continue
				}
				var refused *feedclient.RefusedError
				require.ErrorAs(t, err, &refused)
				require.Equal(t, wire.RefusedFull, refused.Type)
				require.Zero(t, f.Seen().Accepted[fmt.Sprintf(`"list%d-0"`, i)], "refused leaves no trace")
			}
			require.Equal(t, 6, total, "the room is used: %d lists accepted", accepted)
			require.Equal(t, 8, f.Backlog())
			require.Equal(t, 8, f.Seen().MaxBacklog)
		})
	}
}

// A joint list above the whole capacity is told apart, too; only one that is too large by itself is refused so.
func TestTooLarge_IsOneListsOwnFault(t *testing.T) {
	t.Parallel()
	with(t, feedsim.Options{Capacity: 4, Work: fixed(time.Minute)}, func(t *testing.T, f *feedsim.Feed, c *feedclient.Client) {
		lists := []*feedclient.List{
			c.Put(values(2, "a"), false, time.Time{}), c.Put(values(5, "b"), false, time.Time{}), c.Put(values(2, "c"), false, time.Time{}),
		}
		require.NoError(t, lists[0].Accepted(t.Context()))
		var refused *feedclient.RefusedError
		require.ErrorAs(t, lists[1].Accepted(t.Context()), &refused)
		require.Equal(t, wire.RefusedTooLarge, refused.Type)
		require.NoError(t, lists[2].Accepted(t.Context()))
		require.Equal(t, 4, f.Backlog())
	})
}

// F1: twelve callers at once, capacity 8: exactly four are refused, at once and with the number; the others' time-outs
// name both times.
func TestCalls_AboveTheCapacity(t *testing.T) {
	t.Parallel()
	with(t, feedsim.Options{Capacity: 8, Slots: 2, Work: fixed(time.Minute), Delay: 2 * time.Millisecond}, func(t *testing.T, f *feedsim.Feed, c *feedclient.Client) {
		var mu sync.Mutex
		var full, inSlot, inQueue int
		var callers sync.WaitGroup
		start := time.Now()
		for i := range 12 {
			callers.Go(func() {
				_, err := c.Call(within(t, 1200*time.Millisecond), []byte(fmt.Sprint(i)))
				mu.Lock()
				defer mu.Unlock()
				var refused *feedclient.RefusedError
				var late *feedclient.LateError
				switch {
				case errors.As(err, &refused):
					full++
					if refused.Capacity != 8 || time.Since(start) > 100*time.Millisecond {
						t.Errorf("%+v after %v", refused, time.Since(start))
					}
				case errors.As(err, &late):
					if !late.Accepted || late.Total != 1200*time.Millisecond || time.Since(start) != late.Total {
						t.Errorf("%+v after %v", late, time.Since(start))
					}
					if late.Queued == 0 {
						inSlot++
					} else if late.Queued > late.Total-20*time.Millisecond {
						inQueue++
					}
				default:
					t.Error(err)
				}
			})
		}
		callers.Wait()
		require.Equal(t, []int{4, 2, 6}, []int{full, inSlot, inQueue})
		require.Equal(t, 8, f.Backlog(), "an item keeps its place until it is done")
		require.Less(t, f.Seen().Exchanges, 12)
	})
}

// A patient list waits for room, without a storm of exchanges, and is refused with the last refusal when its patience
// ends.
func TestPatience(t *testing.T) {
	t.Parallel()
	with(t, feedsim.Options{Capacity: 2, Slots: 1, Work: fixed(10 * time.Second)}, func(t *testing.T, f *feedsim.Feed, c *feedclient.Client) {
		require.NoError(t, put(t.Context(), c, values(2, "first")))
		start := time.Now()
		var patient []*feedclient.List
		for i := range 100 {
			patient = append(patient, c.Put(values(1, fmt.Sprintf("p%d", i)), true, time.Time{}))
		}
		require.NoError(t, patient[0].Accepted(t.Context()))
		require.InDelta(t, 10, time.Since(start).Seconds(), 0.5)
		require.Less(t, f.Seen().Exchanges, 100, "in 10 s of waiting")
		for _, l := range patient[1:] {
			l.EndPatience()
			var refused *feedclient.RefusedError
			require.ErrorAs(t, l.Accepted(t.Context()), &refused)
			require.Equal(t, wire.RefusedFull, refused.Type)
			require.Equal(t, 2, refused.Capacity)
		}
		require.Len(t, f.Seen().Accepted, 3)
	})
}

// A list that waits for room until its caller's deadline is refused for certain: none is asked about so late that the
// answer comes too late.
func TestPatience_DeadlineLeavesNoDoubt(t *testing.T) {
	t.Parallel()
	slow := feedsim.Options{Capacity: 1, Slots: 1, Work: fixed(time.Hour), Delay: 900 * time.Millisecond}
	with(t, slow, func(t *testing.T, f *feedsim.Feed, c *feedclient.Client) {
		require.NoError(t, put(t.Context(), c, values(1, "first")))
		for i := range 40 {
			ctx := within(t, 10*time.Second+time.Duration(i)*50*time.Millisecond)
			deadline, _ := ctx.Deadline()
			var refused *feedclient.RefusedError
			require.ErrorAs(t, c.Await(ctx, c.Ask([]byte(fmt.Sprint(i)), true, deadline)), &refused)
			require.Equal(t, wire.RefusedFull, refused.Type)
		}
		require.Len(t, f.Seen().Accepted, 1)
	})
}

// A put is accepted once, whatever is lost on the way: requests, answers, connections.
func TestPut_OnceOverFaults(t *testing.T) {
	t.Parallel()
	with(t, feedsim.Options{Lost: 30, Mute: 30, Delay: 5 * time.Millisecond, Capacity: 1000}, func(t *testing.T, f *feedsim.Feed, c *feedclient.Client) {
		for i := range 50 {
			if i%10 == 5 {
				f.Restart(time.Second)
			}
			require.NoError(t, put(t.Context(), c, values(3, fmt.Sprint(i))))
		}
		for value, times := range f.Seen().Accepted {
			require.Equal(t, 1, times, value)
		}
		require.Len(t, f.Seen().Accepted, 150)
	})
}

// A leg is sealed with an item in hand: calls go to its successor, and the result still comes from the first.
func TestSealed(t *testing.T) {
	t.Parallel()
	first := true
	work := func(*rand.Rand) time.Duration {
		if first {
			first = false
			return 10 * time.Minute
		}
		return time.Millisecond
	}
	with(t, feedsim.Options{Work: work, SealAfter: 5, Early: 10 * time.Millisecond}, func(t *testing.T, f *feedsim.Feed, c *feedclient.Client) {
		long := c.Ask([]byte(`"long"`), false, time.Time{})
		for i := range 100 {
			start := time.Now()
			r, err := c.Call(within(t, time.Minute), []byte(fmt.Sprint(i)))
			require.NoError(t, err)
			require.JSONEq(t, fmt.Sprintf(`{"of":%d}`, i), string(r.Result))
			require.Less(t, time.Since(start), time.Second)
		}
		require.Greater(t, f.Seen().Legs, 5)
		<-long.Done()
		r, err := long.Outcome()
		require.NoError(t, err)
		require.JSONEq(t, `{"of":"long"}`, string(r.Result))
		require.Less(t, f.Seen().Polls, 1500, "in ten minutes")
	})
}

// F4: a reset wakes those that wait, and nothing of an old session shows afterwards.
func TestReset(t *testing.T) {
	t.Parallel()
	with(t, feedsim.Options{Slots: 1, Work: fixed(time.Second)}, func(t *testing.T, f *feedsim.Feed, c *feedclient.Client) {
		lists := make([]*feedclient.List, 5)
		for i := range lists {
			lists[i] = c.Ask(values(1, fmt.Sprint(i))[0], false, time.Time{})
		}
		<-lists[0].Done() // its result is there, and has not been looked at
		for _, l := range lists {
			require.NoError(t, l.Accepted(t.Context()))
		}
		start := time.Now()
		done, err := c.Reset(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 2, done.Session)
		require.EqualValues(t, 3, done.Discarded)
		for _, l := range lists {
			<-l.Done()
			r, err := l.Outcome()
			require.NoError(t, err)
			require.True(t, r.Discarded)
			require.Nil(t, r.Result)
		}
		require.Zero(t, time.Since(start), "nobody waits for what still runs")
		r, err := c.Call(within(t, time.Minute), []byte(`"new"`))
		require.NoError(t, err)
		require.JSONEq(t, `{"of":"new"}`, string(r.Result))
		require.EqualValues(t, 2, r.Session)
		require.Len(t, f.Seen().Executed, 3, "what ran was not interrupted, what waited was not run")
	})
}

// F4: a reset of another client's is noticed with the next answer.
func TestReset_OfAnother(t *testing.T) {
	t.Parallel()
	with(t, feedsim.Options{Slots: 2, Work: fixed(time.Second)}, func(t *testing.T, f *feedsim.Feed, c *feedclient.Client) {
		other := feedclient.New(f, feedclient.Options{})
		defer other.Release()
		require.NoError(t, put(t.Context(), c, values(1, "first")))
		running := c.Ask([]byte(`1`), false, time.Time{})
		synctest.Wait()
		waiting := c.Ask([]byte(`2`), false, time.Time{})
		require.NoError(t, waiting.Accepted(t.Context()))
		_, err := other.Reset(t.Context())
		require.NoError(t, err)
		for _, l := range []*feedclient.List{running, waiting} {
			<-l.Done()
			r, err := l.Outcome()
			require.NoError(t, err)
			require.True(t, r.Discarded)
		}
	})
}

// F4: an item that runs during another client's reset has no result for its caller, even if nothing but that result
// could bring the news.
func TestReset_OfAnotherWhileItemRuns(t *testing.T) {
	t.Parallel()
	with(t, feedsim.Options{Slots: 1, Work: fixed(time.Second)}, func(t *testing.T, f *feedsim.Feed, c *feedclient.Client) {
		other := feedclient.New(f, feedclient.Options{})
		defer other.Release()
		running := c.Ask([]byte(`1`), false, time.Time{})
		synctest.Wait()
		done, err := other.Reset(t.Context())
		require.NoError(t, err)
		require.Zero(t, done.Discarded)
		<-running.Done()
		r, err := running.Outcome()
		require.NoError(t, err)
		require.True(t, r.Discarded)
		require.Nil(t, r.Result)
		require.Len(t, f.Seen().Executed, 1, "it was not interrupted")
	})
}

// F8: the end of a feed, of whatever kind, wakes everyone with a typed error, and refuses what comes later.
func TestEnd_WakesEveryone(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*feedsim.Feed){
		"stopped": (*feedsim.Feed).Stop, "terminated": (*feedsim.Feed).Terminate,
	} {
		t.Run(name, func(t *testing.T) {
			with(t, feedsim.Options{Slots: 1, Capacity: 10, Work: fixed(time.Hour)}, func(t *testing.T, f *feedsim.Feed, c *feedclient.Client) {
				var lists []*feedclient.List
				for i := range 20 {
					lists = append(lists, c.Ask(values(1, fmt.Sprint(i))[0], true, time.Time{}))
				}
				require.NoError(t, lists[0].Accepted(t.Context()))
				end(f)
				start := time.Now()
				var ended *feedsim.EndError
				for _, l := range lists {
					<-l.Done()
					_, err := l.Outcome()
					require.ErrorAs(t, err, &ended)
				}
				require.Less(t, time.Since(start), 2*time.Second)
				require.ErrorAs(t, put(t.Context(), c, values(1, "late")), &ended)
				_, err := c.State(t.Context())
				require.ErrorAs(t, err, &ended)
				_, err = c.Reset(t.Context())
				require.ErrorAs(t, err, &ended)
				require.ErrorAs(t, c.Close(t.Context()), &ended)
			})
		})
	}
}

// F5: a closed feed finishes what it has accepted, and those that wait get it.
func TestClose(t *testing.T) {
	t.Parallel()
	with(t, feedsim.Options{Slots: 1, Work: fixed(time.Second)}, func(t *testing.T, f *feedsim.Feed, c *feedclient.Client) {
		var lists []*feedclient.List
		for i := range 10 {
			lists = append(lists, c.Ask(values(1, fmt.Sprint(i))[0], false, time.Time{}))
		}
		for _, l := range lists {
			require.NoError(t, l.Accepted(t.Context()))
		}
		require.NoError(t, c.Close(t.Context()))
		require.NoError(t, c.Close(t.Context()))
		var ended *feedsim.EndError
		require.ErrorAs(t, put(t.Context(), c, values(1, "late")), &ended)
		for _, l := range lists {
			<-l.Done()
			r, err := l.Outcome()
			require.NoError(t, err)
			require.NotNil(t, r.Result)
		}
		require.Zero(t, f.Backlog())
	})
}

// A leg that ends with items in hand: their outcome is not known here, and nobody waits for ever.
func TestLegKilled(t *testing.T) {
	t.Parallel()
	with(t, feedsim.Options{Slots: 1, Work: fixed(time.Hour)}, func(t *testing.T, f *feedsim.Feed, c *feedclient.Client) {
		first := c.Ask([]byte(`1`), false, time.Time{})
		second := c.Ask([]byte(`2`), false, time.Time{})
		require.NoError(t, second.Accepted(t.Context()))
		f.KillLeg()
		for _, l := range []*feedclient.List{first, second} {
			<-l.Done()
			r, err := l.Outcome()
			require.NoError(t, err)
			require.True(t, r.Stored)
		}
		require.NoError(t, put(t.Context(), c, values(1, "next")))
	})
}

// Results that the leg has not kept are not waited for.
func TestResults_NotKept(t *testing.T) {
	t.Parallel()
	with(t, feedsim.Options{Slots: 1, Work: fixed(10 * time.Second)}, func(t *testing.T, f *feedsim.Feed, c *feedclient.Client) {
		l := c.Ask([]byte(`1`), false, time.Time{})
		require.NoError(t, l.Accepted(t.Context()))
		f.Restart(30 * time.Second)
		time.Sleep(15 * time.Second)
		f.Forget()
		<-l.Done()
		r, err := l.Outcome()
		require.NoError(t, err)
		require.True(t, r.Stored)
	})
}

// Without a worker, callers are told so: within their limit, or when an exchange is not taken.
func TestUnserved(t *testing.T) {
	t.Parallel()
	with(t, feedsim.Options{Unserved: true}, func(t *testing.T, f *feedsim.Feed, c *feedclient.Client) {
		start := time.Now()
		_, err := c.Call(within(t, time.Second), []byte(`1`))
		require.ErrorIs(t, err, feedclient.ErrUnserved)
		require.Equal(t, time.Second, time.Since(start))
		var uncertain *feedclient.UncertainError
		require.ErrorAs(t, err, &uncertain)

		start = time.Now()
		err = put(t.Context(), c, values(1, "a"))
		require.ErrorIs(t, err, feedclient.ErrUnserved)
		require.ErrorAs(t, err, &uncertain, "it has been sent, and may be accepted yet")
		require.Less(t, time.Since(start), 10*time.Second)
		_, err = c.State(t.Context())
		require.ErrorIs(t, err, feedclient.ErrUnserved)

		c.Put(values(1, "b"), false, time.Time{})
		waiting := c.Put(values(1, "c"), false, time.Time{}) // two are under way
		err = waiting.Accepted(t.Context())
		require.ErrorIs(t, err, feedclient.ErrUnserved)
		require.NotErrorAs(t, err, &uncertain, "it has not been sent")
		start = time.Now()
		_, err = c.Call(within(t, time.Minute), []byte(`2`))
		require.ErrorIs(t, err, feedclient.ErrUnserved)
		require.Less(t, time.Since(start), 10*time.Second, "whatever its limit")

		f.Serve(true)
		r, err := c.Call(within(t, time.Minute), []byte(`"later"`))
		require.NoError(t, err)
		require.JSONEq(t, `{"of":"later"}`, string(r.Result))
	})
}

// A caller that leaves before its items are sent leaves no trace; one that leaves later is told that it is not known.
func TestLeave(t *testing.T) {
	t.Parallel()
	with(t, feedsim.Options{Delay: time.Second}, func(t *testing.T, f *feedsim.Feed, c *feedclient.Client) {
		require.NoError(t, put(t.Context(), c, values(1, "first")))
		var lists []*feedclient.List
		for i := range 10 {
			lists = append(lists, c.Put(values(1, fmt.Sprint(i)), false, time.Time{}))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var uncertain *feedclient.UncertainError
		require.ErrorAs(t, lists[0].Accepted(ctx), &uncertain)
		err := lists[9].Accepted(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorAs(t, err, &uncertain)
		for _, l := range lists[1:9] {
			require.NoError(t, l.Accepted(t.Context()))
		}
		require.NotContains(t, f.Seen().Accepted, `"9-0"`)
	})
}

// F3: a caller whose deadline passes while its first exchange is under way (the way is slow, requests and answers are
// lost) leaves at its deadline, and is told that it is not known whether its item was accepted. The item is accepted at
// most once, is done if it was, and frees its place; those who share the exchange, and those who come later, get their
// own results.
func TestCall_TimesOutInItsFirstExchange(t *testing.T) {
	t.Parallel()
	accepted := 0
	for seed := range uint64(40) {
		o := feedsim.Options{Seed: seed, Capacity: 3, Slots: 1, Delay: 4 * time.Second, Lost: 20, Mute: 20, Work: fixed(time.Second)}
		with(t, o, func(t *testing.T, f *feedsim.Feed, c *feedclient.Client) {
			start := time.Now()
			short := c.Ask([]byte(`"short"`), false, start.Add(300*time.Millisecond))
			long := c.Ask([]byte(`"long"`), false, start.Add(time.Hour))
			err := c.Await(within(t, 300*time.Millisecond), short)
			var late *feedclient.LateError
			require.ErrorAs(t, err, &late)
			require.False(t, late.Accepted)
			require.True(t, late.Queued < 0 || late.Queued == late.Total, "%v: it is on its way, or has not left", late.Queued)
			require.Equal(t, 300*time.Millisecond, time.Since(start))
			require.NoError(t, c.Await(within(t, time.Hour), long))
			r, err := long.Outcome()
			require.NoError(t, err)
			require.JSONEq(t, `{"of":"long"}`, string(r.Result))
			for i := range 3 {
				r, err := c.Call(within(t, time.Hour), fmt.Appendf(nil, "%d", i))
				require.NoError(t, err)
				require.JSONEq(t, fmt.Sprintf(`{"of":%d}`, i), string(r.Result))
			}
			time.Sleep(time.Minute) // whatever is still under way
			seen := f.Seen()
			require.Zero(t, f.Backlog())
			require.Len(t, seen.Executed, 4+seen.Accepted[`"short"`])
			for value, n := range seen.Executed {
				require.Equal(t, 1, n, value)
			}
			if late.Queued > 0 {
				require.Zero(t, seen.Accepted[`"short"`])
			}
			accepted += seen.Accepted[`"short"`]
		})
	}
	require.Positive(t, accepted)
}

// What the feed answers to an exchange that has been given up is not for those who come later.
func TestGivenUp_TakesNothing(t *testing.T) {
	t.Parallel()
	long := true
	work := func(*rand.Rand) time.Duration {
		if long {
			long = false
			return time.Hour
		}
		return 10 * time.Millisecond
	}
	with(t, feedsim.Options{Work: work, Wait: 20 * time.Second}, func(t *testing.T, f *feedsim.Feed, c *feedclient.Client) {
		given := c.Ask([]byte(`"long"`), false, time.Time{})
		synctest.Wait()
		c.Leave(given)
		f.Restart(time.Second) // the exchange still waits at the leg, and nobody asks for its answer
		time.Sleep(5 * time.Second)
		r, err := c.Call(within(t, time.Minute), []byte(`"next"`))
		require.NoError(t, err)
		require.JSONEq(t, `{"of":"next"}`, string(r.Result))
	})
}

// A feed that answers polls at once, and says nothing of when to ask again, is not stormed.
func TestPolls_AreBounded(t *testing.T) {
	t.Parallel()
	with(t, feedsim.Options{Silent: true, Work: fixed(time.Minute)}, func(t *testing.T, f *feedsim.Feed, c *feedclient.Client) {
		_, err := c.Call(within(t, 2*time.Minute), []byte(`1`))
		require.NoError(t, err)
		require.Less(t, f.Seen().Polls, 70)
	})
}

// Release wakes everyone, and can be repeated; nothing is begun afterwards.
func TestRelease(t *testing.T) {
	t.Parallel()
	with(t, feedsim.Options{Work: fixed(time.Hour), Capacity: 5}, func(t *testing.T, f *feedsim.Feed, c *feedclient.Client) {
		var lists []*feedclient.List
		for i := range 20 {
			lists = append(lists, c.Ask(values(1, fmt.Sprint(i))[0], true, time.Time{}))
		}
		require.NoError(t, lists[1].Accepted(t.Context()))
		c.Release()
		c.Release()
		for _, l := range lists {
			<-l.Done()
			_, err := l.Outcome()
			require.ErrorIs(t, err, feedclient.ErrReleased)
		}
		require.ErrorIs(t, put(t.Context(), c, values(1, "late")), feedclient.ErrReleased)
		_, err := c.Call(within(t, time.Minute), []byte(`1`))
		require.ErrorIs(t, err, feedclient.ErrReleased)
		_, err = c.State(t.Context())
		require.ErrorIs(t, err, feedclient.ErrReleased)
		require.NotContains(t, f.Seen().Accepted, `"late-0"`)
	})
}
