package intake

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

var t0 = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

func items(values ...int) []json.RawMessage {
	var data []json.RawMessage
	for _, v := range values {
		data = append(data, fmt.Appendf(nil, "%d", v))
	}
	return data
}

func count(n int) []json.RawMessage {
	var data []json.RawMessage
	for i := range n {
		data = append(data, items(i)...)
	}
	return data
}

func opened(capacity int) *Intake {
	in := New(Limits{Capacity: capacity, Bytes: 1 << 20, Keep: time.Minute})
	in.Open(wire.Opening{Session: 1})
	return in
}

func put(t *testing.T, in *Intake, client string, n int) int64 {
	t.Helper()
	x := wire.Exchange{Client: client, Items: count(n), Want: true}
	require.Nil(t, in.Check(x))
	return in.Accept(x, t0)
}

// done answers every item of a batch with its ordinal.
func done(in *Intake, b wire.Batch, now time.Time) {
	var outcomes []wire.Outcome
	for o := b.First; o < b.End(); o++ {
		outcomes = append(outcomes, wire.Outcome{Result: fmt.Appendf(nil, "%d", o)})
	}
	in.Finish(b, outcomes, now)
}

// F1: refused only if the whole capacity is taken, as a whole, and without a trace.
func TestIntake_F1_Capacity(t *testing.T) {
	t.Parallel()
	in := opened(8)
	put(t, in, "a", 5)
	refused := in.Check(wire.Exchange{Client: "b", Items: count(4)})
	require.Equal(t, wire.RefusedFull, refused.Type)
	require.Equal(t, wire.Refusal{Session: 1, Capacity: 8, CapacityBytes: 1 << 20, Backlog: 5, BacklogBytes: 5}, refused.Detail)
	require.Equal(t, wire.RefusedTooLarge, in.Check(wire.Exchange{Client: "b", Items: count(9)}).Type)
	require.EqualValues(t, 5, in.Next())
	require.EqualValues(t, 5, put(t, in, "b", 3))
	require.Equal(t, wire.RefusedFull, in.Check(wire.Exchange{Client: "b", Items: count(1)}).Type)

	b, ok := in.Take(most(2, 1000), t0)
	require.True(t, ok)
	require.Equal(t, wire.RefusedFull, in.Check(wire.Exchange{Client: "b", Items: count(1)}).Type, "what runs takes its place")
	done(in, b, t0)
	require.EqualValues(t, 8, put(t, in, "b", 2))
}

// F9: capacity is bounded in bytes as well.
func TestIntake_F9_Bytes(t *testing.T) {
	t.Parallel()
	in := New(Limits{Capacity: 100, Bytes: 10, Keep: time.Minute})
	in.Open(wire.Opening{Session: 1})
	big := wire.Exchange{Client: "a", Items: []json.RawMessage{json.RawMessage(`"123456"`)}}
	require.Nil(t, in.Check(big))
	in.Accept(big, t0)
	require.Equal(t, wire.RefusedFull, in.Check(big).Type)
	big.Items = []json.RawMessage{json.RawMessage(`"1234567890"`)}
	require.Equal(t, wire.RefusedTooLarge, in.Check(big).Type)
}

func TestIntake_Invalid(t *testing.T) {
	t.Parallel()
	in := opened(10_000)
	for _, x := range []wire.Exchange{
		{Items: count(1)},
		{Client: "a", Items: count(wire.MaxExchangeItems + 1)},
		{Client: "a", Items: []json.RawMessage{nil}},
		{Client: "a", Wait: -1},
	} {
		require.Equal(t, wire.RefusedInvalid, in.Check(x).Type)
	}
	require.Equal(t, wire.RefusedSession, in.Check(wire.Exchange{Client: "a", Session: 2, Items: count(1)}).Type)
	require.Equal(t, wire.RefusedSession, in.CheckReset(wire.Reset{Session: 2}).Type)
	require.Nil(t, in.CheckReset(wire.Reset{Session: 1}))
	require.Nil(t, in.CheckReset(wire.Reset{}))
}

func most(items int, bytes int64) Limit { return Limit{Items: items, Bytes: bytes, Wanted: bytes} }

// A batch has fewer bytes if clients want its results.
func TestIntake_WantedBytes(t *testing.T) {
	t.Parallel()
	in := opened(100)
	accept := func(want bool) {
		in.Accept(wire.Exchange{Client: "a", Want: want, Items: []json.RawMessage{[]byte("1111"), []byte("2222"), []byte("3333")}}, t0)
	}
	accept(false)
	accept(true)
	for _, want := range []wire.Batch{wire.Batch{First: 0, Count: 3}.Sealed(), wire.Batch{First: 3, Count: 2}.Sealed(), wire.Batch{First: 5, Count: 1}.Sealed()} {
		b, ok := in.Take(Limit{Items: 10, Bytes: 15, Wanted: 9}, t0)
		require.True(t, ok)
		require.Equal(t, want, b)
	}
	accept(true)
	b, _ := in.Take(Limit{Items: 10, Bytes: 15, Wanted: 1}, t0)
	require.EqualValues(t, 1, b.Count, "one item always fits")
}

// B3: 25 items waiting, size 10: batches of 10, 10 and 5.
func TestIntake_B3_Batches(t *testing.T) {
	t.Parallel()
	in := opened(100)
	put(t, in, "a", 25)
	n, since := in.Waiting()
	require.Equal(t, 25, n)
	require.Equal(t, t0, since)
	for _, want := range []wire.Batch{wire.Batch{First: 0, Count: 10}.Sealed(), wire.Batch{First: 10, Count: 10}.Sealed(), wire.Batch{First: 20, Count: 5}.Sealed()} {
		b, ok := in.Take(most(10, 1<<20), t0)
		require.True(t, ok)
		require.Equal(t, want, b)
	}
	_, ok := in.Take(most(10, 1<<20), t0)
	require.False(t, ok)

	put(t, in, "a", 3)
	b, _ := in.Take(most(10, 2), t0)
	require.EqualValues(t, 2, b.Count, "as many as fit into two bytes")
	require.Equal(t, items(0, 1), in.Data(b))
}

// F2: the state says how many results nobody has taken, whether they are kept or not, and how many items resets have
// removed. The feed is idle meanwhile.
func TestIntake_F2_IdleAndUnclaimed(t *testing.T) {
	t.Parallel()
	in := opened(100)
	put(t, in, "a", 5)
	b, _ := in.Take(most(2, 1000), t0)
	require.Equal(t, 5, in.State(1, t0).Backlog)
	done(in, b, t0)
	require.EqualValues(t, 3, in.Reset(0, t0))
	s := in.State(1, t0)
	require.Zero(t, s.Backlog, "idle: accepted equals finished")
	require.Equal(t, 5, s.Unclaimed)
	require.EqualValues(t, 3, s.Discarded)
	put(t, in, "b", 1)
	in.Collect("b", t0.Add(time.Hour)) // those of a have been kept for long enough
	s = in.State(1, t0)
	require.Equal(t, 5, s.Unclaimed)
	require.Equal(t, 1, s.Backlog)
}

// A sealed leg gives its successor what is left of the capacity, and what it frees afterwards.
func TestIntake_Seal(t *testing.T) {
	t.Parallel()
	before := opened(8)
	put(t, before, "a", 6)
	b, _ := before.Take(most(2, 1000), t0)
	done(before, b, t0)
	next := New(Limits{Capacity: 8, Bytes: 1 << 20, Keep: time.Minute})
	require.Equal(t, wire.RefusedEarly, next.Check(wire.Exchange{Client: "a", Items: count(1)}).Type)
	next.Open(before.Seal(2))
	moved := before.Check(wire.Exchange{Client: "a", Items: count(1)})
	require.Equal(t, wire.RefusedMoved, moved.Type)
	require.Equal(t, 2, moved.Detail.Leg)
	require.Nil(t, before.Check(wire.Exchange{Client: "a"}), "its results can be taken")

	require.Equal(t, wire.RefusedFull, next.Check(wire.Exchange{Client: "a", Items: count(5)}).Type)
	require.EqualValues(t, 6, put(t, next, "a", 4))
	b, _ = before.Take(most(10, 1000), t0)
	done(before, b, t0)
	require.Zero(t, before.Left())
	require.True(t, before.Shut())
	freed := before.Freed()
	require.Equal(t, wire.Freed{Items: 4, Bytes: 4}, freed)
	require.True(t, next.Free(freed))
	require.False(t, next.Free(freed), "it is known")
	require.EqualValues(t, 10, put(t, next, "a", 4))
	before.Close()
	require.Equal(t, wire.RefusedMoved, before.Check(wire.Exchange{Client: "a", Items: count(1)}).Type, "it still says who takes items")
	next.Close()
	require.Equal(t, wire.RefusedClosed, next.Check(wire.Exchange{Client: "a", Items: count(1)}).Type)
	next.End()
	require.Equal(t, wire.RefusedStopping, next.Check(wire.Exchange{Client: "a", Items: count(1)}).Type)
}

// Failed, dropped and stored results reach the client as such; a line that is no JSON is a string.
func TestIntake_Outcomes(t *testing.T) {
	t.Parallel()
	in := opened(100)
	put(t, in, "a", 5)
	b, _ := in.Take(most(4, 1000), t0)
	in.Finish(b, []wire.Outcome{
		{Result: []byte(`{"x":1}`)}, {Result: []byte("no json")}, {},
		{Failure: &job.Failure{Item: 3, Source: "feed", Input: json.RawMessage("3"), Kind: job.KindCrash, Error: job.Error{Type: "T", Message: "m"}, Attempts: 2}},
	}, t0.Add(time.Second))
	last, _ := in.Take(most(4, 1000), t0)
	in.FinishStored(last, &wire.StoredPart{Part: "abc", First: last.First}, t0)
	results, parts, more := in.Collect("a", t0)
	require.False(t, more)
	require.JSONEq(t, `{"x":1}`, string(results[0].Result))
	require.Equal(t, time.Second, results[0].Took)
	require.Equal(t, `"no json"`, string(results[1].Result))
	require.True(t, results[2].Dropped)
	var f job.Failure
	require.NoError(t, json.Unmarshal(results[3].Failure, &f))
	require.Equal(t, job.KindCrash, f.Kind)
	require.Equal(t, "null", string(f.Input), "the client has it")
	require.True(t, results[4].Stored)
	require.Equal(t, 1, results[4].At)
	require.Equal(t, []wire.StoredPart{{Part: "abc", First: last.First}}, parts)
}

// Results are kept for as long, and as many bytes, as is said; a client that comes later learns that they exist.
func TestIntake_Keep(t *testing.T) {
	t.Parallel()
	in := opened(100)
	put(t, in, "gone", 1)
	put(t, in, "a", 3)
	b, _ := in.Take(most(1, 1000), t0)
	done(in, b, t0)
	large := []byte(`"` + string(slices.Repeat([]byte("x"), 700<<10)) + `"`)
	later := t0.Add(30 * time.Second)
	b, _ = in.Take(most(2, 1000), later)
	in.Finish(b, []wire.Outcome{{Result: large}, {Result: large}}, later)
	results, _, _ := in.Collect("a", later)
	require.Len(t, results, 2)
	require.NotNil(t, results[0].Result)
	require.True(t, results[1].Stored)
	require.True(t, in.Unclaimed())
	_, _, _ = in.Collect("a", t0.Add(time.Minute))
	require.False(t, in.Unclaimed())
	require.Equal(t, 1, in.State(1, t0).Unclaimed)
	require.Zero(t, in.held)
	require.True(t, in.Ready("gone"))
}

// A client that has put all that the feed takes, and is slower than the workers for a while, needs no store.
func TestIntake_KeepsWhatFitsTheCapacity(t *testing.T) {
	t.Parallel()
	const capacity = 20_000
	in := New(Limits{Capacity: capacity, Bytes: 4 << 20, Keep: time.Minute})
	in.Open(wire.Opening{Session: 1})
	result := []byte(`"` + strings.Repeat("x", 98) + `"`)
	for range capacity / 1000 {
		put(t, in, "a", 1000)
		b, _ := in.Take(most(1000, 1<<20), t0)
		outcomes := slices.Repeat([]wire.Outcome{{Result: result}}, 1000)
		in.Finish(b, outcomes, t0)
	}
	taken := 0
	for more := true; more; {
		var results []wire.ItemResult
		results, _, more = in.Collect("a", t0)
		for _, r := range results {
			require.False(t, r.Stored, "item %d", r.Item)
			taken++
		}
	}
	require.Equal(t, capacity, taken)
}

// Whatever happens in whatever order: each item has one outcome, its client gets it once, and the capacity is what is
// unfinished.
func TestIntake_Property(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		capacity := 1 + rng.IntN(20)
		in := opened(capacity)
		now := t0
		want := map[int64]string{} // by ordinal
		got := map[int64]int{}
		running := []wire.Batch{}
		collect := func() {
			for _, c := range []string{"a", "b"} {
				for more := true; more; {
					var results []wire.ItemResult
					results, _, more = in.Collect(c, now)
					for _, r := range results {
						require.Equal(t, c, want[r.Item])
						got[r.Item]++
					}
				}
			}
		}
		finish := func() {
			if len(running) == 0 {
				return
			}
			n := rng.IntN(len(running))
			b := running[n]
			running = slices.Delete(running, n, n+1)
			k := 1 + rng.Int64N(b.Count)
			done(in, wire.Batch{First: b.First, Count: k}.Sealed(), now)
			if k < b.Count {
				running = append(running, b.After(k, 0))
			}
		}
		take := func() {
			if b, ok := in.Take(most(1+rng.IntN(5), 1000), now); ok {
				running = append(running, b)
			}
		}
		for range 100 {
			now = now.Add(time.Duration(rng.IntN(100)) * time.Millisecond)
			switch rng.IntN(5) {
			case 0, 1:
				x := wire.Exchange{Client: string("ab"[rng.IntN(2)]), Items: count(1 + rng.IntN(6)), Want: rng.IntN(4) > 0}
				items, _ := in.Backlog()
				if refused := in.Check(x); refused != nil {
					require.Greater(t, items+len(x.Items), capacity)
					continue
				}
				first := in.Accept(x, now)
				for i := range x.Items {
					if x.Want {
						want[first+int64(i)] = x.Client
					}
				}
			case 2:
				take()
			case 3:
				finish()
			case 4:
				if rng.IntN(4) == 0 {
					in.Reset(0, now)
				} else {
					collect()
				}
			}
			items, _ := in.Backlog()
			require.LessOrEqual(t, items, capacity)
			unfinished := 0
			for _, u := range in.Unfinished() {
				unfinished += len(u.Items)
			}
			require.Equal(t, items, unfinished)
		}
		in.Close()
		for in.Left() > 0 {
			take()
			finish()
		}
		collect()
		require.Len(t, got, len(want))
		for o := range want {
			require.Equal(t, 1, got[o])
		}
		require.Zero(t, in.held)
		require.Empty(t, in.clients)
		require.Empty(t, in.order)
		require.Zero(t, in.kept)
	}
}

func TestIntake_Items(t *testing.T) {
	t.Parallel()
	in := opened(10)
	put(t, in, "a", 3)
	first, _ := in.Take(most(1, 1000), t0.Add(time.Second))
	_, _ = in.Take(most(1, 1000), t0.Add(2*time.Second))
	done(in, first, t0.Add(3*time.Second))
	require.Equal(t, []wire.ItemState{
		{Item: 0, Left: true}, {Item: 1, Left: true, Queued: 2 * time.Second}, {Item: 2, Queued: 5 * time.Second},
	}, in.Items([]int64{-1, 0, 1, 2, 3}, t0.Add(5*time.Second)))
}

// Signals may overtake each other: what a leg frees may be known to its successor before the opening.
func TestIntake_FreedBeforeItIsOpen(t *testing.T) {
	t.Parallel()
	before := opened(8)
	put(t, before, "a", 6)
	next := New(Limits{Capacity: 8, Bytes: 1 << 20, Keep: time.Minute})
	opening := before.Seal(2)
	b, _ := before.Take(most(4, 1000), t0)
	done(before, b, t0)
	next.Free(before.Freed())
	next.Open(opening)
	n, bytes := next.Backlog()
	require.Equal(t, 2, n)
	require.EqualValues(t, 2, bytes)
	require.Zero(t, next.Freed())
}

// F11: whatever messages between legs and their job are late, repeated or in another order, a leg never takes more than
// the capacity that is left, and knows in the end that all is done.
func TestIntake_FreedInAnyOrder(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 300 {
		const capacity = 8
		legs := []*Intake{opened(capacity)}
		var all wire.Freed                            // that the job has heard of
		heard := []wire.Freed{{}}                     // of each leg
		var toJob, toLeg, openings []func()           // messages on their way
		deliver := func(list *[]func(), again bool) { // one of them
			if len(*list) == 0 {
				return
			}
			i := rng.IntN(len(*list))
			(*list)[i]()
			if !again {
				*list = slices.Delete(*list, i, i+1)
			}
		}
		unfinished := func() (n int) {
			for _, leg := range legs {
				n += len(leg.items)
			}
			return n
		}
		newest := func() *Intake { return legs[len(legs)-1] }
		tell := func() {
			leg, total := newest(), all
			toLeg = append(toLeg, func() { leg.Free(total) })
		}
		step := func() {
			switch at := rng.IntN(len(legs)); rng.IntN(6) {
			case 0:
				if n := 1 + rng.IntN(3); newest().IsOpen() && newest().Check(wire.Exchange{Client: "a", Items: count(n)}) == nil {
					put(t, newest(), "a", n)
				}
			case 1:
				leg := legs[at]
				if b, ok := leg.Take(most(1+rng.IntN(3), 1000), t0); ok {
					done(leg, b, t0)
				}
				total := leg.Freed()
				toJob = append(toJob, func() {
					all.Add(heard[at].Grow(total))
					tell()
				})
			case 2:
				if newest().IsOpen() && len(legs) < 6 {
					opening := newest().Seal(len(legs) + 1)
					next := New(Limits{Capacity: capacity, Bytes: 1 << 20, Keep: time.Minute})
					legs, heard = append(legs, next), append(heard, wire.Freed{})
					openings = append(openings, func() { next.Open(opening) })
					tell()
				}
			case 3:
				deliver(&toJob, rng.IntN(4) == 0)
			case 4:
				deliver(&toLeg, rng.IntN(4) == 0)
			case 5:
				deliver(&openings, false)
			}
			require.LessOrEqual(t, unfinished(), capacity)
			if n, _ := newest().Backlog(); newest().IsOpen() {
				require.GreaterOrEqual(t, n, unfinished())
			}
		}
		for range 200 {
			step()
		}
		for at, leg := range legs { // the rest is done, and every message arrives
			for len(openings) > 0 {
				deliver(&openings, false)
			}
			for leg.Left() > 0 {
				b, _ := leg.Take(most(3, 1000), t0)
				done(leg, b, t0)
			}
			total := leg.Freed()
			toJob = append(toJob, func() {
				all.Add(heard[at].Grow(total))
				tell()
			})
		}
		for len(toJob)+len(toLeg) > 0 {
			deliver(&toJob, false)
			deliver(&toLeg, false)
		}
		n, bytes := newest().Backlog()
		require.Zero(t, n)
		require.Zero(t, bytes)
	}
}
