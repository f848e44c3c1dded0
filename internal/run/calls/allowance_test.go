package calls

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// many makes requests for n items, so many at a time, each of which takes some time and uses something. It returns when
// each was begun, in their order; nil for those that were not.
func many(a *Allowance, n, atOnce int, took func() time.Duration, uses func(i int) job.Usage, estimate job.Usage, key func(i int) string) []*time.Duration {
	soon, once := make(chan struct{}), sync.Once{}
	a.full = func() { once.Do(func() { close(soon) }) }
	began := time.Now()
	begun := make([]*time.Duration, n)
	var next sync.Mutex
	at := 0
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for {
				next.Lock()
				i := at
				at++
				next.Unlock()
				if i >= n || Closed(soon) {
					return
				}
				r, ok := a.Take(soon, Wanted{Items: []Item{{Ordinal: int64(i)}}, Keys: []string{key(i)}, Estimate: estimate})
				if !ok {
					return
				}
				since := time.Since(began)
				begun[i] = &since
				time.Sleep(took())
				r.Done(uses(i), true)
			}
		})
	}
	all.Wait()
	return begun
}

func oneKey(int) string        { return "" }
func tokens(n int64) job.Usage { return job.Usage{TokensIn: n} }
func always(d time.Duration) func() time.Duration {
	return func() time.Duration { return d }
}

// H2: Requests are begun at the limit, evenly, whatever their answers take; in no second there are more than it and 2 %.
func TestAllowance_Requests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(3, 4))
		var mu sync.Mutex
		took := func() time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return time.Duration(random.Int64N(int64(3 * time.Second)))
		}
		a := NewAllowance(&wire.Share{Requests: 6_000_000})
		begun := many(a, 6000, 400, took, func(int) job.Usage { return job.Usage{} }, job.Usage{}, oneKey)
		evenly(t, begun, 100, time.Minute)
		require.InDelta(t, time.Minute.Seconds(), a.Waited().Seconds(), 1)
	})
}

// evenly requires that so many begin a second, in so long, and in no second 2 % more.
func evenly(t *testing.T, begun []*time.Duration, perSecond int, in time.Duration) {
	t.Helper()
	var at []time.Duration
	for i, b := range begun {
		require.NotNil(t, b, "item %d", i)
		at = append(at, *b)
	}
	slices.Sort(at)
	require.InDelta(t, in.Seconds(), at[len(at)-1].Seconds(), 0.02*in.Seconds())
	for i, first := 0, 0; i < len(at); i++ {
		for at[i]-at[first] >= time.Second {
			first++
		}
		require.LessOrEqual(t, i-first+1, perSecond*102/100+1, "in the second until %v", at[i])
	}
}

// What was lost between two batches is made up for without a burst, and what an earlier batch has taken is waited for.
func TestAllowance_GoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := NewAllowance(&wire.Share{Requests: 6_000_000, First: wire.NextTurn{Turn: -500 * time.Millisecond}})
		nothing := func(int) job.Usage { return job.Usage{} }
		begun := many(a, 3050, 50, always(20*time.Millisecond), nothing, job.Usage{}, oneKey)
		evenly(t, begun, 100, 30*time.Second)
		require.InDelta(t, 0, a.Next().Turn.Seconds(), 0.02)

		late := NewAllowance(&wire.Share{Requests: 6000, First: wire.NextTurn{Turn: 7 * time.Second}})
		begun = many(late, 3, 3, always(0), nothing, job.Usage{}, oneKey)
		slices.SortFunc(begun, func(a, b *time.Duration) int { return cmp.Compare(*a, *b) })
		require.Equal(t, 7*time.Second, *begun[0])
		require.Equal(t, 27*time.Second, *begun[2])
		require.Equal(t, 10*time.Second, late.Next().Turn)
		time.Sleep(time.Hour)
		require.Equal(t, -time.Second, late.Next().Turn)
	})
}

// Tokens are limited by what answers say that they took, not by estimates.
func TestAllowance_Tokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := NewAllowance(&wire.Share{TokenRate: 60_000_000}) // 1,000 a second
		began := time.Now()
		many(a, 600, 20, always(100*time.Millisecond), func(i int) job.Usage { return job.Usage{TokensIn: int64(50 + i%50), TokensOut: 25} }, tokens(700), oneKey)
		used := a.Used().Tokens()
		require.InDelta(t, float64(used)/1000, time.Since(began).Seconds(), 3, "%d tokens", used)
	})
}

// H2: Limits by a field hold for each of its values, and for each alone.
func TestAllowance_ByKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := NewAllowance(&wire.Share{Requests: 600_000, By: "tenant"})
		began := time.Now()
		key := func(i int) string { return string(rune('a' + i%5)) }
		begun := many(a, 1500, 50, always(time.Millisecond), func(int) job.Usage { return job.Usage{} }, job.Usage{}, key)
		require.InDelta(t, 30, time.Since(began).Seconds(), 0.5, "five times ten a second")
		for of := range 5 {
			var its []*time.Duration
			for i := of; i < len(begun); i += 5 {
				its = append(its, begun[i])
			}
			evenly(t, its, 10, 30*time.Second)
		}
	})
}

// H3: A budget is exceeded by what calls in hand use more than expected at most, and no outcome lies behind one that is
// missing.
func TestAllowance_Budget(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 5))
			const most = 300
			atOnce, budget := 1+random.IntN(100), 1000+random.Int64N(50_000)
			share := &wire.Share{Tokens: budget}
			if random.IntN(2) == 0 {
				share.Each = tokens(most / 2)
			}
			if random.IntN(2) == 0 {
				share.Requests = job.Rate(600_000 + random.IntN(60_000_000))
			}
			var estimate job.Usage
			if random.IntN(2) == 0 {
				estimate = tokens(1 + random.Int64N(2*most))
			}
			var mu sync.Mutex
			draw := func(n int64) int64 {
				mu.Lock()
				defer mu.Unlock()
				return random.Int64N(n)
			}
			a := NewAllowance(share)
			begun := many(a, 2000, atOnce, func() time.Duration { return time.Duration(draw(1e9)) }, func(int) job.Usage { return tokens(1 + draw(most)) }, estimate, oneKey)
			used := a.Used().Tokens()
			require.LessOrEqual(t, used, budget+int64(atOnce)*most, "seed %d", seed)
			missing := slices.IndexFunc(begun, func(b *time.Duration) bool { return b == nil })
			if missing < 0 {
				return
			}
			require.Greater(t, used, budget*9/10-int64(atOnce+1)*max(most, estimate.Tokens()), "seed %d", seed)
			for _, b := range begun[missing:] {
				require.Nil(t, b, "seed %d: item %d was not requested, and one behind it was", seed, missing)
			}
		})
	}
}

// The first request is begun however small the share is: the job gets on.
func TestAllowance_SmallShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := NewAllowance(&wire.Share{Cost: 1, Each: job.Usage{Cost: 1000}})
		begun := many(a, 10, 5, always(time.Second), func(int) job.Usage { return job.Usage{Cost: 1000} }, job.Usage{}, oneKey)
		require.NotNil(t, begun[0])
		require.LessOrEqual(t, a.Used().Cost, job.Money(5000))
	})
	synctest.Test(t, func(t *testing.T) {
		var none *Allowance
		require.Zero(t, none.Used())
		free := NewAllowance(nil)
		begun := many(free, 100, 10, always(time.Second), func(int) job.Usage { return tokens(5) }, job.Usage{}, oneKey)
		require.NotContains(t, begun, (*time.Duration)(nil))
		require.Equal(t, tokens(500), free.Used())
		require.Equal(t, tokens(500), free.TakeUsed())
		require.Zero(t, free.Used())
		require.Zero(t, free.Next())
	})
}

// H3: Requests under way count for what they will use; the next one waits for their ends.
func TestAllowance_CountsRequestsUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := NewAllowance(&wire.Share{Tokens: 5050, Each: tokens(100)})
		var begun []*Request
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for i := range 100 {
				r, ok := a.Take(nil, Wanted{Items: []Item{{Ordinal: int64(i)}}})
				if !ok {
					return
				}
				begun = append(begun, r)
			}
		}()
		synctest.Wait()
		require.Len(t, begun, 50)
		begun[0].Done(tokens(50), true)
		synctest.Wait()
		require.Greater(t, len(begun), 50, "they use less than expected")
		for i := 1; i < len(begun); i++ {
			begun[i].Done(tokens(100), true)
			synctest.Wait()
		}
		<-ended
		require.LessOrEqual(t, a.Used().Tokens(), int64(5150))
	})
}

// A budget does not hold up requests that turn out to use nothing, nor does it let failed ones show anything.
func TestAllowance_OfNoUse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		a := NewAllowance(&wire.Share{Tokens: 1000})
		begun := many(a, 100, 10, always(time.Second), func(int) job.Usage { return job.Usage{} }, job.Usage{}, oneKey)
		require.NotContains(t, begun, (*time.Duration)(nil))
		require.LessOrEqual(t, time.Since(began), 12*time.Second, "one at a time only until the first has its answer")
	})
	failed := NewAllowance(&wire.Share{Tokens: 1000})
	item := Wanted{Items: []Item{{}}}
	r, ok := failed.Take(nil, item)
	require.True(t, ok)
	r.Done(job.Usage{}, false)
	r, ok = failed.Take(nil, item)
	require.True(t, ok)
	ended := make(chan struct{})
	close(ended)
	_, ok = failed.Take(ended, Wanted{Items: []Item{{Ordinal: 1}}})
	require.False(t, ok, "nothing is known, and one is under way")
	r.Done(job.Usage{}, true)
}

// H2: Batches that are cut off while requests wait lose no turns, and the ones after them take none too soon.
func TestAllowance_OverBatches(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"", "tenant"} {
		synctest.Test(t, func(t *testing.T) {
			var next wire.NextTurn
			var begun []*time.Duration
			began := time.Now()
			for range 30 {
				a := NewAllowance(&wire.Share{Requests: 600_000, By: by, First: next}) // ten a second
				soon := make(chan struct{})
				time.AfterFunc(time.Second, func() { close(soon) })
				var all sync.WaitGroup
				var mu sync.Mutex
				for lane := range 40 {
					all.Go(func() {
						for i := 0; ; i++ {
							r, ok := a.Take(soon, Wanted{Items: []Item{{Ordinal: int64(40*i + lane)}}, Keys: []string{"same"}})
							if !ok {
								return
							}
							since := time.Since(began)
							mu.Lock()
							begun = append(begun, &since)
							mu.Unlock()
							r.Done(job.Usage{}, true)
						}
					})
				}
				all.Wait()
				next = a.Next()
			}
			evenly(t, begun, 10, time.Since(began))
			require.GreaterOrEqual(t, len(begun), 290)
		})
	}
}

// H2: values whose turn has not come are handed over, and by another batch, too; others begin at once.
func TestAllowance_KeysAreHandedOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		share := &wire.Share{Requests: 1000, By: "k"} // one a minute
		take := func(a *Allowance, key string, want time.Duration) {
			r, ok := a.Take(nil, Wanted{Items: []Item{{}}, Keys: []string{key}})
			require.True(t, ok)
			r.Done(job.Usage{}, true)
			require.Equal(t, want, time.Since(began), key)
		}
		a := NewAllowance(share)
		for i := range 400 {
			take(a, string(rune(i)), time.Duration(i)*10*time.Millisecond)
			time.Sleep(10 * time.Millisecond)
		}
		turns, values := a.Taken()
		require.EqualValues(t, 400, turns)
		require.EqualValues(t, 400, values)
		share.First = a.Next()
		require.Zero(t, share.First.Turn)
		require.Len(t, share.First.Keys.All(), 400)
		b := NewAllowance(share)
		take(b, "other", 4*time.Second)
		share.First = b.Next()
		c := NewAllowance(share)
		take(c, string(rune(0)), time.Minute)
		take(c, string(rune(399)), time.Minute+3990*time.Millisecond)
		take(c, "other", time.Minute+4*time.Second)
	})
}

// Of too many values the latest are handed over, and all others wait for the latest of the rest: as long as that is, in
// batches that follow, too.
func TestAllowance_TooManyKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		share := &wire.Share{Requests: 1000, By: "k"} // one a minute
		a := NewAllowance(share)
		for i := range wire.MaxKeyTurns + 100 {
			r, ok := a.Take(nil, Wanted{Items: []Item{{Ordinal: int64(i)}}, Keys: []string{string(rune(i))}})
			require.True(t, ok)
			r.Done(job.Usage{}, true)
			time.Sleep(time.Millisecond)
		}
		next := a.Next()
		require.Len(t, next.Keys.All(), wire.MaxKeyTurns)
		const rest = 59 * time.Second // they came a second ago
		require.InDelta(t, rest.Seconds(), next.Turn.Seconds(), 0.002)
		share.First = next
		b := NewAllowance(share)
		time.Sleep(time.Second)
		require.Equal(t, next.Turn-time.Second, b.Next().Turn, "none of these have been seen by this batch")
	})
}
