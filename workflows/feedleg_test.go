package workflows

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/feed"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// feedWorld is a leg of a feed in the time of the SDK's test environment, with the world around it simulated: batches
// take time, and give each item itself as its result.
type feedWorld struct {
	t    *testing.T
	env  *testsuite.TestWorkflowEnvironment
	spec job.Spec
	in   wire.FeedLegInput

	takes   time.Duration // a batch
	grows   int           // bytes of results for each byte of items; 0: one
	mu      sync.Mutex    // of what follows: activities run beside each other
	batches []wire.ProcessInput
	at      []time.Duration // since the beginning, when they were dispatched
	commits []wire.CommitFeedInput
	answers map[string]wire.Exchanged
	refused map[string]string // types
	ended   map[string]time.Duration
	began   time.Time
}

func setupFeed(t *testing.T, change func(*job.Spec)) *feedWorld {
	t.Helper()
	w := &feedWorld{t: t, takes: 20 * time.Millisecond, answers: map[string]wire.Exchanged{}, refused: map[string]string{}, ended: map[string]time.Duration{}}
	w.spec = job.Spec{Name: "risk", Pool: "risk", Feed: &job.Feed{}, Output: "out/"}.WithDefaults()
	if change != nil {
		change(&w.spec)
	}
	w.in = wire.FeedLegInput{Spec: w.spec, LegState: wire.LegState{Number: 1, Window: 1}, Opening: &wire.FeedOpening{Opening: wire.Opening{Session: 1}}}
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	w.env = suite.NewTestWorkflowEnvironment()
	w.env.SetTestTimeout(20 * time.Second)
	w.env.SetWorkerOptions(sdkworker.Options{DeadlockDetectionTimeout: time.Minute})
	w.env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: wire.LegID("risk", 1), TaskQueue: wire.PoolQueue("risk")})
	w.env.RegisterWorkflowWithOptions(FeedLeg, workflow.RegisterOptions{Name: wire.WorkflowFeedLeg})
	w.env.RegisterActivityWithOptions(w.Process, activity.RegisterOptions{Name: "Process"})
	w.env.RegisterActivityWithOptions(w.commit, activity.RegisterOptions{Name: "CommitFeed"})
	w.began = w.env.Now()
	return w
}

// Process answers after some time of the workflow.
func (w *feedWorld) Process(ctx context.Context, in wire.ProcessInput) (wire.ProcessResult, error) {
	w.mu.Lock()
	w.batches = append(w.batches, in)
	w.at = append(w.at, w.env.Now().Sub(w.began))
	w.mu.Unlock()
	token := activity.GetInfo(ctx).TaskToken
	result := wire.ProcessResult{Entry: wire.Entry{Batch: in.Batch, OK: in.Batch.Count}, Totals: job.Totals{OK: in.Batch.Count, Batches: 1, Calls: 1, Busy: w.takes}}
	inline := wire.Inline{}
	for _, data := range in.Items {
		inline.Results = append(append(inline.Results, bytes.Repeat(data, max(1, w.grows))...), '\n')
	}
	result.Entry.Bytes = int64(len(inline.Results))
	result.Inline = &inline
	w.env.RegisterDelayedCallback(func() { require.NoError(w.t, w.env.CompleteActivity(token, result, nil)) }, w.takes)
	return wire.ProcessResult{}, activity.ErrResultPending
}

func (w *feedWorld) commit(_ context.Context, in wire.CommitFeedInput) (wire.CommitResult, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.commits = append(w.commits, in)
	return wire.CommitResult{Manifest: fmt.Sprintf("m-%d", len(w.commits))}, nil
}

// update is what a client learns of its exchange.
type update struct {
	w  *feedWorld
	id string
}

func (u update) Accept() {}

func (u update) Reject(err error) {
	var app *temporal.ApplicationError
	require.ErrorAs(u.w.t, err, &app)
	u.w.refused[u.id] = app.Type()
}

func (u update) Complete(answer any, err error) {
	require.NoError(u.w.t, err)
	u.w.ended[u.id] = u.w.env.Now().Sub(u.w.began)
	if a, ok := answer.(wire.Exchanged); ok {
		u.w.answers[u.id] = a
	}
}

// exchange sends an exchange at a time.
func (w *feedWorld) exchange(at time.Duration, id string, x wire.Exchange) {
	if x.Client == "" {
		x.Client = "test"
	}
	w.env.RegisterDelayedCallback(func() { w.env.UpdateWorkflow(wire.UpdateExchange, id, update{w, id}, x) }, at)
}

func (w *feedWorld) put(at time.Duration, id string, from, n int) {
	var items []json.RawMessage
	for i := range n {
		items = append(items, fmt.Appendf(nil, "%d", from+i))
	}
	w.exchange(at, id, wire.Exchange{Items: items})
}

func (w *feedWorld) close(at time.Duration) {
	w.env.RegisterDelayedCallback(func() { w.env.SignalWorkflow(wire.SignalClose, nil) }, at)
}

func (w *feedWorld) run() wire.LegResult {
	w.t.Helper()
	w.env.ExecuteWorkflow(FeedLeg, w.in)
	require.True(w.t, w.env.IsWorkflowCompleted())
	require.NoError(w.t, w.env.GetWorkflowError())
	var r wire.LegResult
	require.NoError(w.t, w.env.GetWorkflowResult(&r))
	return r
}

func (w *feedWorld) sizes() (sizes []int) {
	for _, b := range w.batches {
		require.Len(w.t, b.Items, int(b.Batch.Count))
		sizes = append(sizes, len(b.Items))
	}
	return sizes
}

// committed is how many items the commits account for, which they do once each.
func (w *feedWorld) committed() (done, discarded, unfinished int64) {
	seen := map[int64]bool{}
	once := func(first, n int64) {
		for o := first; o < first+n; o++ {
			require.False(w.t, seen[o], "item %d", o)
			seen[o] = true
		}
	}
	for _, c := range w.commits {
		for _, e := range c.Entries {
			once(e.First, e.Count)
			done += e.Count
		}
		for _, r := range c.Discarded {
			once(r.First, r.Count)
			discarded += r.Count
		}
		for _, u := range c.Unfinished {
			once(u.First, int64(len(u.Items)))
			unfinished += int64(len(u.Items))
		}
	}
	return done, discarded, unfinished
}

// B3: 25 items waiting, size 10: batches of 10, 10 and 5, without a wait and with one.
func TestFeedLeg_B3_Sizes(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{0, 200 * time.Millisecond} {
		t.Run(wait.String(), func(t *testing.T) {
			t.Parallel()
			w := setupFeed(t, func(s *job.Spec) { s.BatchItems, s.Feed.BatchWait = 10, wait })
			w.put(time.Millisecond, "put", 0, 25)
			w.close(10 * time.Second)
			r := w.run()
			require.Equal(t, []int{10, 10, 5}, w.sizes())
			require.EqualValues(t, 25, r.Accepted)
			require.EqualValues(t, 25, r.Totals.OK)
			done, _, _ := w.committed()
			require.EqualValues(t, 25, done)
			require.GreaterOrEqual(t, w.at[2], wait, "the last one waits for more")
		})
	}
}

// Batches whose results clients want are as large as those allow that came before.
func TestFeedLeg_WantedResultsStaySmall(t *testing.T) {
	t.Parallel()
	for _, wanted := range []bool{true, false} {
		w := setupFeed(t, func(s *job.Spec) { s.Feed.Capacity, s.BatchItems = 1000, 1000 })
		w.grows = 4
		items := make([]json.RawMessage, 250)
		for i := range items {
			items[i] = bytes.Repeat([]byte("7"), 1<<10)
		}
		w.exchange(time.Millisecond, "x", wire.Exchange{Items: items, Want: wanted})
		w.close(10 * time.Second)
		w.run()
		if !wanted {
			require.Equal(t, []int{250}, w.sizes())
			continue
		}
		require.Equal(t, 48, w.sizes()[0], "as if results were as large as items")
		for _, size := range w.sizes()[1:] {
			require.LessOrEqual(t, size, 12, "48 KiB of results")
		}
		require.Equal(t, 11, w.sizes()[1])
	}
}

// If a leg's history is large, results go to the store, and need not be small.
func TestFeedLeg_LargeHistory(t *testing.T) {
	t.Parallel()
	for _, large := range []bool{true, false} {
		w := setupFeed(t, func(s *job.Spec) { s.Feed.Capacity, s.BatchItems = 1000, 1000 })
		items := make([]json.RawMessage, 120)
		for i := range items {
			items[i] = bytes.Repeat([]byte("7"), 1<<10)
		}
		if large {
			w.env.SetCurrentHistorySize(feed.StoreBytes)
		}
		w.exchange(time.Millisecond, "x", wire.Exchange{Items: items, Want: true})
		w.close(10 * time.Second)
		w.run()
		want := []int{48, 47, 25}
		if large {
			want = []int{120}
		}
		require.Equal(t, want, w.sizes())
		for _, b := range w.batches {
			require.Equal(t, large, b.Stored)
		}
	}
}

// B2: a batch waits from its first item on, and no longer.
func TestFeedLeg_B2_Wait(t *testing.T) {
	t.Parallel()
	w := setupFeed(t, func(s *job.Spec) { s.BatchItems, s.Feed.BatchWait = 100, time.Second })
	for n := range 20 {
		w.put(time.Duration(1+300*n)*time.Millisecond, fmt.Sprint("put", n), n, 1)
	}
	w.close(time.Minute)
	w.run()
	for _, size := range w.sizes() {
		require.GreaterOrEqual(t, size, 3)
		require.LessOrEqual(t, size, 5)
	}
	require.Len(t, w.batches, 5)
	require.InDelta(t, time.Second, w.at[0], float64(10*time.Millisecond))
}

// B2: a lone item leaves after the wait; a full batch at once; without a wait, what has gathered.
func TestFeedLeg_B2_LoneFullAndNone(t *testing.T) {
	t.Parallel()
	w := setupFeed(t, func(s *job.Spec) { s.BatchItems, s.Feed.BatchWait = 4, 500*time.Millisecond })
	w.put(time.Second, "lone", 0, 1)
	w.put(3*time.Second, "full", 1, 4)
	w.put(5*time.Second, "part", 5, 2)
	w.put(5*time.Second+100*time.Millisecond, "rest", 7, 2)
	w.close(time.Minute)
	w.run()
	require.Equal(t, []int{1, 4, 4}, w.sizes())
	require.InDelta(t, 1500*time.Millisecond, w.at[0], float64(10*time.Millisecond))
	require.InDelta(t, 3*time.Second, w.at[1], float64(10*time.Millisecond))
	require.InDelta(t, 5100*time.Millisecond, w.at[2], float64(10*time.Millisecond))

	w = setupFeed(t, nil)
	w.put(time.Second, "one", 0, 1)
	w.put(time.Second+5*time.Millisecond, "two", 1, 3)
	w.put(time.Second+10*time.Millisecond, "three", 4, 2)
	w.close(time.Minute)
	w.run()
	require.Equal(t, []int{1, 5}, w.sizes(), "what has gathered when the place is free")
	require.InDelta(t, time.Second, w.at[0], float64(10*time.Millisecond))
}

// B3, F5, S11: a partial batch is executed when the feed is closed; a stop leaves it to whoever continues.
func TestFeedLeg_PartialBatch(t *testing.T) {
	t.Parallel()
	w := setupFeed(t, func(s *job.Spec) { s.BatchItems, s.Feed.BatchWait = 100, time.Hour })
	w.put(time.Second, "put", 0, 3)
	w.close(2 * time.Second)
	r := w.run()
	require.Equal(t, []int{3}, w.sizes())
	require.Zero(t, r.Left)

	w = setupFeed(t, func(s *job.Spec) { s.BatchItems, s.Feed.BatchWait = 100, time.Hour })
	w.put(time.Second, "put", 0, 3)
	w.env.RegisterDelayedCallback(func() {
		w.env.SignalWorkflow(wire.SignalHalt, wire.StopNotice{Deadline: w.env.Now().Add(time.Minute)})
	}, 2*time.Second)
	r = w.run()
	require.Empty(t, w.batches)
	require.EqualValues(t, 3, r.Left)
	_, _, unfinished := w.committed()
	require.EqualValues(t, 3, unfinished)
}

// F3, F8: an exchange waits for its results, no longer than it wants, and ends when the feed does.
func TestFeedLeg_Waits(t *testing.T) {
	t.Parallel()
	w := setupFeed(t, nil)
	w.takes = 3 * time.Second
	w.exchange(time.Second, "short", wire.Exchange{Items: []json.RawMessage{json.RawMessage("1")}, Want: true, Wait: time.Second})
	w.exchange(2500*time.Millisecond, "poll", wire.Exchange{Wait: 20 * time.Second})
	w.exchange(10*time.Second, "stopped", wire.Exchange{Items: []json.RawMessage{json.RawMessage("2")}, Want: true, Wait: 20 * time.Second})
	w.exchange(11*time.Second, "other", wire.Exchange{Client: "other"})
	w.exchange(12*time.Second, "none", wire.Exchange{Client: "test"})
	w.env.RegisterDelayedCallback(func() {
		w.env.SignalWorkflow(wire.SignalHalt, wire.StopNotice{Deadline: w.env.Now()})
	}, 12100*time.Millisecond)
	w.run()
	require.Empty(t, w.answers["short"].Results)
	require.Equal(t, 1, w.answers["short"].Pending)
	require.InDelta(t, 2*time.Second, w.ended["short"], float64(50*time.Millisecond))
	require.Len(t, w.answers["poll"].Results, 1)
	require.InDelta(t, 4*time.Second, w.ended["poll"], float64(50*time.Millisecond))
	require.Equal(t, wire.RefusedStopping, w.answers["stopped"].Ended)
	require.Empty(t, w.answers["other"].Results, "it has nothing to wait for")
	require.Equal(t, wire.RefusedNotYet, w.refused["none"], "an answer without results is not worth its events")
}

// An exchange that is there before the leg's first workflow task is answered in it: a leg that begins open is never
// early.
func TestFeedLeg_AnswersFromTheBeginning(t *testing.T) {
	t.Parallel()
	w := setupFeed(t, nil)
	w.exchange(0, "first", wire.Exchange{Items: []json.RawMessage{json.RawMessage("1")}, Want: true, Wait: time.Second})
	w.close(time.Second)
	w.run()
	require.Empty(t, w.refused)
	require.Len(t, w.answers["first"].Results, 1)
}

// F7: eight exchanges wait at a time, one of each client. When others come, four go on waiting of those that have had
// their second.
func TestFeedLeg_F7_Waiters(t *testing.T) {
	t.Parallel()
	w := setupFeed(t, nil)
	w.takes = time.Minute
	for n := range 9 {
		c := fmt.Sprint("c", n)
		w.exchange(time.Duration(1000+n)*time.Millisecond, c, wire.Exchange{Client: c, Items: []json.RawMessage{json.RawMessage("1")}, Want: true, Wait: 20 * time.Second})
	}
	w.exchange(3*time.Second, "c8 again", wire.Exchange{Client: "c8", Wait: 10 * time.Second})
	w.exchange(4*time.Second, "c5 again", wire.Exchange{Client: "c5", Wait: 20 * time.Second})
	w.close(10 * time.Second)
	w.run()
	require.Equal(t, 1, w.answers["c8"].Pending, "nobody makes room yet")
	require.InDelta(t, time.Second, w.ended["c8"], float64(50*time.Millisecond))
	for c := range 4 {
		require.InDelta(t, 3*time.Second, w.ended[fmt.Sprint("c", c)], float64(50*time.Millisecond), "%d makes room", c)
	}
	require.InDelta(t, 13*time.Second, w.ended["c8 again"], float64(50*time.Millisecond))
	require.InDelta(t, 4*time.Second, w.ended["c4"], float64(50*time.Millisecond), "five wait")
	require.InDelta(t, 4*time.Second, w.ended["c5"], float64(50*time.Millisecond), "a client waits once")
	for c := 6; c < 8; c++ {
		require.InDelta(t, 21*time.Second, w.ended[fmt.Sprint("c", c)], float64(50*time.Millisecond), "nobody is forgotten when others have had their time")
	}
	require.InDelta(t, 24*time.Second, w.ended["c5 again"], float64(50*time.Millisecond))
}

// The end of one wait does not forget those that end later, although nothing else happens.
func TestFeedLeg_F7_LaterWaits(t *testing.T) {
	t.Parallel()
	w := setupFeed(t, nil)
	w.takes = time.Minute
	for n, wait := range []time.Duration{5 * time.Second, 5 * time.Second, 8 * time.Second, 8500 * time.Millisecond} {
		c := fmt.Sprint("c", n)
		w.exchange(time.Second, c, wire.Exchange{Client: c, Items: []json.RawMessage{json.RawMessage("1")}, Want: true, Wait: wait})
	}
	w.close(2 * time.Minute)
	w.run()
	for c, end := range map[string]time.Duration{"c0": 6 * time.Second, "c1": 6 * time.Second, "c2": 9 * time.Second, "c3": 9500 * time.Millisecond} {
		require.InDelta(t, end, w.ended[c], float64(50*time.Millisecond), c)
	}
}

// progressAt asks the leg at a time.
func (w *feedWorld) progressAt(at time.Duration, into *job.Progress) {
	w.env.RegisterDelayedCallback(func() {
		value, err := w.env.QueryWorkflow(wire.QueryProgress)
		require.NoError(w.t, err)
		*into = job.Progress{}
		require.NoError(w.t, value.Get(into))
	}, at)
}

// A leg that takes no more items and is the last one keeps what others free, and does not send it back to the job for
// ever.
func TestFeedLeg_FreedAfterTheClose(t *testing.T) {
	t.Parallel()
	w := setupFeed(t, nil)
	w.in.Opening.Unfinished = 5
	w.takes = 10 * time.Second
	w.put(time.Second, "a", 0, 1)
	w.close(2 * time.Second)
	w.env.RegisterDelayedCallback(func() { w.env.SignalWorkflow(wire.SignalAllFreed, wire.Freed{Items: 3}) }, 3*time.Second)
	var p job.Progress
	w.progressAt(4*time.Second, &p)
	w.run()
	require.Equal(t, 3, p.Feed.Backlog)
}

// F11: a run of the job that is not the leg's own ends it, also if it only keeps results for clients: that run needs
// its workflow ID. What its own run says was meant for a leg that had the ID before, and comes late.
func TestFeedLeg_F11_Disowned(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		by       string
		at       time.Duration
		ends     time.Duration // about
		reported bool          // its end
	}{
		{"another", time.Second, time.Second, false},
		{"another", time.Minute, time.Minute, true}, // it keeps a result
		{"own", time.Second, limits.DefaultKeep, true},
		{"own", time.Minute, limits.DefaultKeep, true},
	} {
		w := setupFeed(t, nil)
		w.in.Ref.Run = "own"
		w.takes = 5 * time.Second
		w.exchange(0, "a", wire.Exchange{Items: []json.RawMessage{[]byte("7")}, Want: true})
		w.close(2 * time.Second)
		w.env.RegisterDelayedCallback(func() { w.env.SignalWorkflow(wire.SignalDisowned, test.by) }, test.at)
		w.env.ExecuteWorkflow(FeedLeg, w.in)
		require.True(t, w.env.IsWorkflowCompleted())
		require.WithinDuration(t, w.began.Add(test.ends), w.env.Now(), 10*time.Second, "%+v", test)
		if test.reported {
			require.NoError(t, w.env.GetWorkflowError(), "%+v", test)
		} else {
			require.ErrorContains(t, w.env.GetWorkflowError(), "canceled", "%+v", test)
		}
	}
}

// successor sets the time from which the next leg stands by, and returns a counter of the signals that tell it to take
// items. Such a signal takes half a second, and is lost if the sender ends before.
func (w *feedWorld) successor(at time.Duration) *atomic.Int64 {
	opened := &atomic.Int64{}
	w.env.OnSignalExternalWorkflow(anything, wire.LegID("risk", 2), "", wire.SignalOpen, anything).Return(func(string, string, string, string, any) error {
		opened.Add(1)
		return nil
	}).After(500 * time.Millisecond).Maybe()
	w.env.RegisterDelayedCallback(func() { w.env.SignalWorkflow(wire.SignalSuccessor, 2) }, at)
	return opened
}

// F11: a leg that gets nothing but its job's checks for months is sealed, too, once its history is long.
func TestFeedLeg_F11_IdleLegIsSealed(t *testing.T) {
	t.Parallel()
	w := setupFeed(t, nil)
	opened := w.successor(time.Second)
	alive := func(at time.Duration, events int) {
		w.env.RegisterDelayedCallback(func() {
			w.env.SetCurrentHistoryLength(events)
			w.env.SignalWorkflow(wire.SignalAlive, nil)
		}, at)
	}
	alive(time.Minute, feed.SealEvents-1)
	w.env.RegisterDelayedCallback(func() { require.Zero(t, opened.Load()) }, 2*time.Minute)
	alive(3*time.Minute, feed.SealEvents)
	r := w.run()
	require.EqualValues(t, 1, opened.Load())
	require.Zero(t, r.Accepted)
	require.WithinDuration(t, w.began.Add(3*time.Minute), w.env.Now(), time.Second, "it has nothing to finish")
}

// A leg is sealed early if the results of what it has would take its history to where they go to the store: clients
// that have none could not get them. A leg with a short history is not.
func TestFeedLeg_SealedBeforeResultsGoToTheStore(t *testing.T) {
	t.Parallel()
	const megabyte = 1 << 20
	for _, test := range []struct {
		size, items int // bytes of history, and of unfinished items
		opened      int64
	}{
		{6 * megabyte, 2 * megabyte, 0},
		{6 * megabyte, 5 * megabyte / 2, 1}, // 3.3 MB in base64, five times
		{feed.SealBytes / 2, 4 * megabyte, 1},
		{feed.SealBytes/2 - 1, 4 * megabyte, 0},
		{feed.SealBytes - 1, megabyte, 0},
		{feed.SealBytes, 0, 1},
	} {
		w := setupFeed(t, nil)
		w.takes = time.Minute
		opened := w.successor(time.Second)
		for at := 0; at < test.items; at += megabyte {
			n := min(megabyte, test.items-at)
			w.exchange(time.Second+time.Duration(at)*time.Microsecond, fmt.Sprint(at), wire.Exchange{Client: fmt.Sprint(at), Items: []json.RawMessage{bytes.Repeat([]byte("7"), n)}, Want: true})
		}
		w.env.RegisterDelayedCallback(func() {
			require.Zero(t, opened.Load())
			w.env.SetCurrentHistorySize(test.size)
			w.env.SignalWorkflow(wire.SignalAlive, nil)
		}, 10*time.Second)
		w.close(20 * time.Second)
		w.run()
		require.Empty(t, w.refused)
		require.Equal(t, test.opened, opened.Load(), "%+v", test)
	}
}

// Outcomes are counted for the session of their items: those of an earlier session count no more.
func TestFeedLeg_CountsBySession(t *testing.T) {
	t.Parallel()
	w := setupFeed(t, func(s *job.Spec) { s.BatchItems = 2 })
	w.takes = 5 * time.Second
	w.put(time.Second, "first", 0, 4)
	w.env.RegisterDelayedCallback(func() { w.env.UpdateWorkflow(wire.UpdateReset, "reset", update{w, "reset"}, wire.Reset{}) }, 2*time.Second)
	w.put(3*time.Second, "second", 4, 3)
	w.close(time.Minute)
	r := w.run()
	require.EqualValues(t, 5, r.Totals.OK, "two ran when the session ended")
	require.Equal(t, wire.Counts{Leg: 1, Session: 2, OK: 3}, r.Counted)
}

// G1: what a leg could not write to the store at its end stays in its history, where the job that is resumed asks for
// it.
func TestFeedLeg_G1_CommitFails(t *testing.T) {
	t.Parallel()
	for _, broken := range []bool{false, true} {
		w := setupFeed(t, func(s *job.Spec) { s.BatchItems, s.Grace = 2, time.Second })
		w.takes = 500 * time.Millisecond
		w.env.OnActivity("CommitFeed", mock.Anything, mock.Anything).Return(func(ctx context.Context, in wire.CommitFeedInput) (wire.CommitResult, error) {
			if broken {
				return wire.CommitResult{}, permanentError(job.ErrorOutput)
			}
			return w.commit(ctx, in)
		})
		w.put(time.Second, "some", 0, 5)
		w.env.RegisterDelayedCallback(func() {
			w.env.SignalWorkflow(wire.SignalHalt, wire.StopNotice{Deadline: w.env.Now().Add(10 * time.Second)})
		}, 1700*time.Millisecond) // one batch is done, another one runs
		r := w.run()
		require.Equal(t, broken, r.Unsaved)
		value, err := w.env.QueryWorkflow(wire.QueryPending, 0)
		require.NoError(t, err)
		var piece []byte
		require.NoError(t, value.Get(&piece))
		pending, err := wire.DecodePending(func(int) ([]byte, error) { return piece, nil })
		require.NoError(t, err)
		if broken {
			w.commits = pending
		} else {
			require.Len(t, pending, 1)
			require.True(t, pending[0].Empty())
		}
		done, _, unfinished := w.committed()
		require.EqualValues(t, 2, done)
		require.EqualValues(t, 3, unfinished)
	}
}

// G1, G9: what a leg has not committed includes the items that resets have discarded, those of a commit that has failed
// among them. Without them the next run would take these items for lost.
func TestFeedLeg_PendingHasWhatWasDiscarded(t *testing.T) {
	t.Parallel()
	w := setupFeed(t, func(s *job.Spec) { s.BatchItems, s.Grace = 2, time.Second })
	w.takes = 5 * time.Second
	w.env.OnActivity("CommitFeed", mock.Anything, mock.Anything).Return(wire.CommitResult{}, permanentError(job.ErrorOutput))
	w.put(time.Millisecond, "first", 0, 6) // 0 and 1 are taken
	reset := func(at time.Duration, id string) {
		w.env.RegisterDelayedCallback(func() { w.env.UpdateWorkflow(wire.UpdateReset, id, update{w, id}, wire.Reset{}) }, at)
	}
	pending := func() (discarded []wire.FeedRange) {
		value, err := w.env.QueryWorkflow(wire.QueryPending, 0)
		require.NoError(t, err)
		var piece []byte
		require.NoError(t, value.Get(&piece))
		all, err := wire.DecodePending(func(int) ([]byte, error) { return piece, nil })
		require.NoError(t, err)
		for _, in := range all {
			discarded = append(discarded, in.Discarded...)
		}
		return discarded
	}
	reset(100*time.Millisecond, "reset")
	w.env.RegisterDelayedCallback(func() {
		require.Equal(t, []wire.FeedRange{{First: 2, Count: 4, Session: 1}}, pending(), "not yet committed")
	}, 200*time.Millisecond)
	w.env.RegisterDelayedCallback(func() {
		w.env.SignalWorkflow(wire.SignalHalt, wire.StopNotice{Deadline: w.env.Now().Add(10 * time.Second)})
	}, time.Second)
	require.True(t, w.run().Unsaved)
	require.Equal(t, []wire.FeedRange{{First: 2, Count: 4, Session: 1}}, pending(), "a commit has failed")
}

// S18: from a stop on a leg accepts nothing, also if the job has not told it yet; what it has accepted goes on, and a
// reset of the feed or a client that asks for results is answered.
func TestD7_NothingIsAcceptedAfterAStop(t *testing.T) {
	t.Parallel()
	w := setupFeed(t, nil)
	w.put(time.Millisecond, "before", 0, 1)
	w.env.RegisterDelayedCallback(func() {
		w.env.SignalWorkflow(wire.SignalBar, nil)
		w.env.UpdateWorkflow(wire.UpdateExchange, "with", update{w, "with"}, wire.Exchange{Client: "test", Items: []json.RawMessage{[]byte("1")}})
	}, 2*time.Millisecond)
	w.put(time.Second, "after", 2, 1)
	w.close(2 * time.Second)
	w.run()
	require.Equal(t, map[string]string{"with": wire.RefusedStopping, "after": wire.RefusedStopping}, w.refused)
	require.Contains(t, w.answers, "before")
	done, _, _ := w.committed()
	require.EqualValues(t, 1, done)

	standby := setupFeed(t, nil)
	standby.in.Opening = nil
	standby.env.RegisterDelayedCallback(func() { standby.env.SignalWorkflow(wire.SignalBar, nil) }, time.Millisecond)
	standby.env.RegisterDelayedCallback(func() {
		standby.env.SignalWorkflow(wire.SignalOpen, wire.FeedOpening{Opening: wire.Opening{Session: 1}})
	}, 2*time.Millisecond)
	standby.put(time.Second, "opened", 0, 1)
	standby.close(2 * time.Second)
	standby.run()
	require.Equal(t, map[string]string{"opened": wire.RefusedStopping}, standby.refused)
}
