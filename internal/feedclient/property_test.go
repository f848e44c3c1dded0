package feedclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
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
)

var (
	seeds    = flag.Uint64("feed-seeds", 30, "how many seeds the property test tries")
	onlySeed = flag.Uint64("feed-seed", 0, "the only seed that it tries")
)

// fate is what a caller knows of a value that it has put.
type fate int

const (
	doubtful fate = iota // accepted once, or never
	accepted             // accepted once
	refused              // never
)

// round is one run of the property test.
type round struct {
	t      *testing.T
	feed   *feedsim.Feed
	client []*feedclient.Client

	mu     sync.Mutex
	fates  map[string]fate
	lists  [][]string // accepted as a whole, or not at all
	served int        // calls with a result
}

// Whatever is lost, late, sealed, restarted or reset, with hundreds of callers of all kinds: what a caller is told is
// true. Each value is accepted once or never, as a whole list; a result is that of its own item; nothing hangs, nothing
// is left.
func TestProperties(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= *seeds; seed++ {
		if *onlySeed != 0 {
			seed = *onlySeed
		}
		t.Logf("seed %d", seed)
		synctest.Test(t, func(t *testing.T) { runRound(t, seed) })
		if t.Failed() || *onlySeed != 0 {
			t.Fatalf("to repeat it: -feed-seed %d", seed)
		}
	}
}

func runRound(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	pick := func(values ...int) int { return values[rng.IntN(len(values))] }
	o := feedsim.Options{
		Seed: seed, Capacity: pick(4, 16, 64, 256), Slots: 1 + rng.IntN(8), BatchItems: pick(1, 1, 10, 100), Lost: pick(0, 0, 5, 20), Mute: pick(0, 0, 5, 20),
		Delay: time.Duration(pick(0, 1, 10)) * time.Millisecond, SealAfter: pick(0, 5, 50), Early: time.Duration(pick(0, 20)) * time.Millisecond,
		Unannounced: rng.IntN(4) == 0, Wait: time.Duration(pick(100, 1000, 20_000)) * time.Millisecond,
	}
	r := &round{t: t, feed: feedsim.New(o), fates: map[string]fate{}}
	for i := range 1 + rng.IntN(3) {
		linger := time.Duration(pick(0, 0, 2, 50)) * time.Millisecond
		r.client = append(r.client, feedclient.New(r.feed, feedclient.Options{Linger: linger, Token: fmt.Sprint("c", i)}))
	}
	var callers sync.WaitGroup
	for i := range 300 {
		caller := rand.New(rand.NewPCG(seed, uint64(i)+100))
		callers.Go(func() { r.caller(caller, fmt.Sprint(i)) })
	}
	stop := make(chan struct{})
	var faults sync.WaitGroup
	faults.Go(func() { r.faults(rng, stop) })
	callers.Wait()
	close(stop)
	faults.Wait()
	end := rng.IntN(4)
	switch end {
	case 0:
		if err := r.client[0].Close(t.Context()); err != nil {
			require.ErrorAs(t, err, new(*feedsim.EndError))
		}
	case 1:
		r.feed.Stop()
	case 2:
		r.feed.Terminate()
	}
	if end < 3 {
		err := r.client[0].Put(values(1, "late"), true, time.Time{}).Accepted(t.Context())
		var ended *feedsim.EndError
		require.ErrorAs(t, err, &ended)
	}
	for _, c := range r.client {
		c.Release()
	}
	time.Sleep(time.Hour) // what is under way at the feed
	r.check(o)
}

// faults seals, restarts and resets now and then.
func (r *round) faults(rng *rand.Rand, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(rng.IntN(3000)) * time.Millisecond):
		}
		switch rng.IntN(40) {
		case 0, 1, 2, 3, 4, 5, 6, 7:
			r.feed.Restart(time.Duration(rng.IntN(5000)) * time.Millisecond)
		case 8, 9, 10, 11, 12, 13, 14, 15:
			r.feed.Seal()
		case 16, 17:
			r.feed.KillLeg()
		case 18, 19:
			r.feed.Serve(false)
			time.Sleep(time.Duration(rng.IntN(10_000)) * time.Millisecond)
			r.feed.Serve(true)
		case 20:
			r.feed.Stop()
		case 21:
			r.feed.Terminate()
		case 22:
			if err := r.client[0].Close(within(r.t, 10*time.Second)); err != nil && !errors.As(err, new(*feedsim.EndError)) && !errors.Is(err, context.DeadlineExceeded) {
				r.t.Error(err)
			}
		case 23, 24, 25, 26, 27, 28:
			c := r.client[rng.IntN(len(r.client))]
			done, err := c.Reset(within(r.t, 10*time.Second))
			if err == nil && done.Session < 2 {
				r.t.Errorf("%+v", done)
			}
		}
	}
}

// caller puts and calls some values, each but once.
func (r *round) caller(rng *rand.Rand, name string) {
	for k := range 1 + rng.IntN(4) {
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
		c := r.client[rng.IntN(len(r.client))]
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Duration(1+rng.IntN(20_000))*time.Millisecond)
		if rng.IntN(5) == 0 {
			time.AfterFunc(time.Duration(rng.IntN(1000))*time.Millisecond, cancel)
		}
		items := values(1, fmt.Sprintf("%s-%d", name, k))
		if rng.IntN(2) == 0 {
			r.call(ctx, c, items[0])
		} else {
			limit := time.Duration(rng.IntN(2)*rng.IntN(3000)) * time.Millisecond
			items = values(1+rng.IntN(5), fmt.Sprintf("%s-%d", name, k))
			r.note(items, c.PutWithin(ctx, limit, items), nil)
		}
		cancel()
	}
}

func (r *round) call(ctx context.Context, c *feedclient.Client, item json.RawMessage) {
	session := r.feed.Session()
	result, err := c.Call(ctx, item)
	r.note([]json.RawMessage{item}, err, &result)
	if err != nil {
		return
	}
	switch {
	case result.Discarded && result.Result == nil && r.feed.Seen().Resets > 0:
	case result.Stored && r.feed.Seen().Killed > 0:
	case string(result.Result) == `{"of":`+string(item)+`}` && result.Session >= session:
	default:
		r.t.Errorf("%s: %+v", item, result)
	}
}

// note keeps what the caller has been told of its items.
func (r *round) note(items []json.RawMessage, err error, result *wire.ItemResult) {
	var list []string
	for _, item := range items {
		list = append(list, string(item))
	}
	f := accepted
	var uncertain *feedclient.UncertainError
	var late *feedclient.LateError
	var not *feedclient.RefusedError
	switch {
	case err == nil:
	case errors.As(err, &uncertain):
		f = doubtful
	case errors.As(err, &late):
		f = doubtful
		if late.Accepted {
			f = accepted
		}
	case errors.As(err, &not) && (not.Type == wire.RefusedFull || not.Type == wire.RefusedTooLarge):
		f = refused
	case errors.As(err, new(*feedsim.EndError)), errors.Is(err, feedclient.ErrUnserved):
		f = refused
		if result != nil { // a call's item may have been accepted before
			f = doubtful
		}
	case errors.Is(err, context.Canceled):
		f = doubtful // a call that has been accepted has this error, too
	default:
		r.t.Errorf("%s: %v", list, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, value := range list {
		r.fates[value] = f
	}
	r.lists = append(r.lists, list)
	if result != nil && result.Result != nil {
		r.served++
	}
}

func (r *round) check(o feedsim.Options) {
	seen := r.feed.Seen()
	for value, f := range r.fates {
		n := seen.Accepted[value]
		if n > 1 || f == accepted && n != 1 || f == refused && n != 0 {
			r.t.Errorf("%s was accepted %d times; its caller's knowledge: %v", value, n, f)
		}
		if seen.Executed[value] > n {
			r.t.Errorf("%s was executed", value)
		}
	}
	for _, list := range r.lists {
		for _, value := range list[1:] {
			if seen.Accepted[value] != seen.Accepted[list[0]] {
				r.t.Errorf("%v was accepted in part", list)
			}
		}
	}
	if seen.MaxBacklog > o.Capacity {
		r.t.Errorf("backlog %d, capacity %d", seen.MaxBacklog, o.Capacity)
	}
	if o.Lost == 0 && o.Mute == 0 && seen.Restarts == 0 && seen.MaxUnder > 3 {
		r.t.Errorf("%d exchanges of a client were under way at one leg", seen.MaxUnder)
	}
	r.t.Logf("%+v: %d values, %d results; %d exchanges, %d polls, %d refused, %d resets, %d legs", o.Capacity, len(r.fates), r.served,
		seen.Exchanges, seen.Polls, seen.Refusals, seen.Resets, seen.Legs)
}
