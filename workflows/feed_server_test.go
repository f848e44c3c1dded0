package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	"github.com/stint-run/stint/workflows"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
)

// Legs are short, unless `make limits` wants them as they are.
func init() {
	if os.Getenv("STINT_LIMITS_EXCHANGES") == "" {
		workflows.ShortLegs(8, 4)
	}
}

// caller calls a feed, one exchange after the other, as clients do.
type caller struct {
	t    *testing.T
	s    *server
	name string
	job  string
	leg  int
	sent int
}

// callLimit is far more than the whole test takes: one call lasts for as long as all the others.
const callLimit = 10 * time.Minute

// ask sends an exchange to a leg, again until its outcome is known.
func (c *caller) ask(ctx context.Context, leg int, x wire.Exchange) (a wire.Exchanged, err error) {
	x.Client = c.name
	c.sent++
	id := fmt.Sprintf("%s-%d", c.name, c.sent)
	for {
		var h client.WorkflowUpdateHandle
		h, err = c.s.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			WorkflowID: wire.LegID(c.job, leg), UpdateID: id, UpdateName: wire.UpdateExchange, Args: []any{x}, WaitForStage: client.WorkflowUpdateStageCompleted,
		})
		if err == nil {
			err = h.Get(ctx, &a)
		}
		var exhausted *serviceerror.ResourceExhausted
		var failed *serviceerror.WorkflowNotReady // a workflow task was overtaken by another event, and runs again
		if !errors.As(err, &exhausted) && !errors.As(err, &failed) || ctx.Err() != nil {
			return a, err
		}
	}
}

// pause is the time between two requests of a client, as the feed has asked for it.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// open is the leg that takes items.
func (c *caller) open() (leg int) {
	d, err := c.s.temporal.DescribeWorkflowExecution(c.t.Context(), c.job, "")
	if payload := d.GetWorkflowExecutionInfo().GetMemo().GetFields()[wire.MemoLeg]; err == nil && payload != nil {
		_ = converter.GetDefaultDataConverter().FromPayload(payload, &leg)
	}
	return leg
}

// call puts items, and returns their results in order.
func (c *caller) call(items []json.RawMessage) ([]string, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), callLimit)
	defer cancel()
	for ctx.Err() == nil {
		a, err := c.ask(ctx, c.leg, wire.Exchange{Items: items, Want: true, Wait: 5 * time.Second})
		var refused *temporal.ApplicationError
		var missing *serviceerror.NotFound
		switch {
		case errors.As(err, &refused) && refused.Type() == wire.RefusedMoved:
			var detail wire.Refusal
			if err := refused.Details(&detail); err != nil {
				return nil, err
			}
			c.leg = detail.Leg
			continue
		case errors.As(err, &refused) && (refused.Type() == wire.RefusedEarly || refused.Type() == wire.RefusedFull), errors.As(err, &missing):
			if leg := c.open(); errors.As(err, &missing) {
				c.leg = leg
			}
			pause(ctx, 5*time.Millisecond)
			continue
		case err != nil:
			return nil, err
		}
		return c.collect(ctx, a, len(items))
	}
	return nil, ctx.Err()
}

func (c *caller) collect(ctx context.Context, a wire.Exchanged, n int) ([]string, error) {
	found := make([]string, n)
	leg, first, left := c.leg, a.First, n
	for {
		for _, r := range a.Results {
			i := r.Item - first
			if i < 0 || i >= int64(n) || found[i] != "" {
				return nil, fmt.Errorf("item %d has come, which is not wanted, or again", r.Item)
			}
			found[i] = string(r.Result) + string(r.Failure)
			left--
		}
		if left == 0 {
			return found, nil
		}
		pause(ctx, a.Again)
		var err error
		a, err = c.ask(ctx, leg, wire.Exchange{Wait: 5 * time.Second})
		var refused *temporal.ApplicationError
		if errors.As(err, &refused) && refused.Type() == wire.RefusedNotYet {
			var detail wire.Refusal
			err = refused.Details(&detail)
			a = wire.Exchanged{Again: detail.Again}
		}
		if err != nil {
			return nil, err
		}
	}
}

// awaitIdle waits until a feed has nothing unfinished; if that takes too long, the test's log says what the feed waits
// for.
func (s *server) awaitIdle(t *testing.T, name string) {
	t.Helper()
	feed := jobs.NewFeed[any, any](s.client, name, jobs.FeedOptions{})
	defer feed.Release()
	idle := func() bool { is, err := feed.Idle(t.Context()); return err == nil && is }
	if assert.Eventually(t, idle, 10*time.Minute, 10*time.Millisecond) {
		return
	}
	run := s.client.Get(name)
	report, err := run.Report(t.Context())
	text, _ := json.MarshalIndent(report, "", "  ")
	t.Logf("report: %s, error: %v", text, err)
	running, err := run.Running(t.Context())
	t.Logf("running: %+v, error: %v", running, err)
	for _, id := range append([]string{name}, report.OpenLegs...) {
		history := s.temporal.GetWorkflowHistory(t.Context(), id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for history.HasNext() {
			event, err := history.Next()
			require.NoError(t, err)
			text := event.String()
			t.Logf("%s: %s", id, text[:min(len(text), 600)])
		}
	}
	t.FailNow()
}

// F11: legs are sealed, and the job continues as new, under callers at once and with a slow item in hand: each item has
// one outcome, its caller gets it, and the capacity is never exceeded.
func TestFeed_F11_Segments(t *testing.T) {
	t.Parallel()
	s := setup(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	const callers, rounds, capacity = 8, 60, 20
	slow, begun := make(chan struct{}), make(chan struct{})
	begins := sync.OnceFunc(func() { close(begun) }) // on a busy machine it may expire, and run again
	var mu sync.Mutex
	running, most := 0, 0
	handle := func(_ context.Context, n int) (int, error) {
		mu.Lock()
		running++
		most = max(most, running)
		mu.Unlock()
		defer func() {
			mu.Lock()
			running--
			mu.Unlock()
		}()
		if n == 0 {
			begins()
			<-slow
		}
		return 2 * n, nil
	}
	w, err := worker.New(jobs.NewClient(s.temporal, nil), "feeding", worker.Each(handle), worker.Options{Slots: 3, Logger: quiet})
	require.NoError(t, err)
	stop := serve(w)
	t.Cleanup(stop)
	dir := t.TempDir()
	run, err := s.client.Start(t.Context(), job.Spec{
		Name: "feed-segments", Pool: "feeding", Feed: &job.Feed{Capacity: capacity}, Output: filepath.Join(dir, "out"), Backoff: time.Millisecond,
	}, nil)
	require.NoError(t, err)
	newCaller := func(name string) *caller {
		c := &caller{t: t, s: s, name: name, job: "feed-segments"}
		require.Eventually(t, func() bool { c.leg = c.open(); return c.leg > 0 }, 10*time.Minute, 10*time.Millisecond)
		return c
	}
	var all sync.WaitGroup
	first := newCaller("slow")
	all.Go(func() {
		got, err := first.call([]json.RawMessage{json.RawMessage("0")})
		assert.NoError(t, err)
		assert.Equal(t, []string{"0"}, got)
	})
	<-begun // in a batch of its own: others of that batch would wait for it

	var enough atomic.Bool // legs; how long one takes more than its eight exchanges depends on how soon the next one stands by
	all.Go(func() {
		watcher := newCaller("watcher")
		assert.Eventually(t, func() bool { return watcher.open() > 12 }, callLimit, 20*time.Millisecond)
		enough.Store(true)
	})
	var put sync.Mutex
	total := int64(1)
	var callersDone sync.WaitGroup
	for n := range callers {
		c := newCaller(fmt.Sprint("caller", n))
		rng := rand.New(rand.NewPCG(seed, uint64(n)))
		callersDone.Go(func() {
			for round := 0; round < rounds || round < 990 && !enough.Load(); round++ {
				var items []json.RawMessage
				var want []string
				for i := range 1 + rng.IntN(4) {
					v := 1 + n*100_000 + round*100 + i
					items, want = append(items, fmt.Appendf(nil, "%d", v)), append(want, fmt.Sprint(2*v))
				}
				got, err := c.call(items)
				if !assert.NoError(t, err) || !assert.Equal(t, want, got) {
					return
				}
				put.Lock()
				total += int64(len(items))
				put.Unlock()
			}
		})
	}
	callersDone.Wait()
	close(slow)
	all.Wait()
	h, err := s.temporal.UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{WorkflowID: "feed-segments", UpdateName: wire.UpdateClose, WaitForStage: client.WorkflowUpdateStageCompleted})
	require.NoError(t, err)
	require.NoError(t, h.Get(t.Context(), nil))
	report, err := run.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, job.Completed, report.State)
	require.Equal(t, total, report.Planned)
	require.Equal(t, total, report.OK)
	require.Greater(t, report.Feed.Segments, 10)
	require.LessOrEqual(t, most, 3)
	data, err := os.ReadFile(filepath.Join(dir, "out"))
	require.NoError(t, err)
	lines := strings.Fields(string(data))
	require.Len(t, lines, int(total))
	seen := map[string]bool{}
	for _, l := range lines {
		require.False(t, seen[l], l)
		seen[l] = true
	}
	desc, err := s.temporal.DescribeWorkflowExecution(t.Context(), "feed-segments", "")
	require.NoError(t, err)
	require.NotEqual(t, report.Run, desc.GetWorkflowExecutionInfo().GetExecution().GetRunId(), "the job has continued as new")
}

// newFeed makes a feed of texts, with its own pool and worker.
func (s *server) newFeed(t *testing.T, name string) (*theJob, *jobs.Feed[string, string]) {
	t.Helper()
	j := s.newJob(t, name, 1, "")
	j.spec.Feed, j.spec.Files, j.spec.BatchItems = &job.Feed{}, nil, 0
	feed := jobs.NewFeed[string, string](s.client, j.spec.Name, jobs.FeedOptions{})
	t.Cleanup(feed.Release)
	return j, feed
}

// runFeed is a feed with several legs whose job continues as new, with failed and dropped items, and a reset.
func runFeed(t *testing.T, s *server, name string) (*theJob, job.Report) {
	j, feed := s.newFeed(t, name)
	j.on(func(_ context.Context, text string) (string, error) {
		switch {
		case strings.HasSuffix(text, "3"):
			return "", errors.New("no threes")
		case strings.HasSuffix(text, "4"):
			return "", worker.Drop
		}
		return text, nil
	})
	j.start(jobs.StartOptions{})
	for i := range 60 {
		text := fmt.Sprint("item ", i)
		got, err := feed.Call(t.Context(), text)
		switch i % 10 {
		case 3:
			require.True(t, jobs.IsCode(err, jobs.CodeItem))
		case 4:
			require.True(t, jobs.IsCode(err, jobs.CodeDropped))
		default:
			require.NoError(t, err)
			require.Equal(t, text, got)
		}
		if i == 30 {
			_, err := feed.Reset(t.Context())
			require.NoError(t, err)
		}
	}
	require.NoError(t, feed.Close(t.Context()))
	report := j.completes()
	require.EqualValues(t, 60, report.Planned)
	require.EqualValues(t, 6, report.Failed)
	require.EqualValues(t, 2, report.Feed.Session)
	return j, report
}

// runFeedResumed is a feed that is stopped with items that wait, and continued.
func runFeedResumed(t *testing.T, s *server, name string) (*theJob, job.Report) {
	j, feed := s.newFeed(t, name)
	j.spec.BatchItems = 2
	gate, began := make(chan struct{}), make(chan struct{}, 100)
	j.on(func(ctx context.Context, text string) (string, error) {
		began <- struct{}{}
		select {
		case <-gate:
		case <-worker.Stopping(ctx):
		}
		return text, nil
	})
	j.start(jobs.StartOptions{})
	var items []string
	for i := range 50 {
		items = append(items, fmt.Sprint("item ", i))
	}
	require.NoError(t, feed.PutWait(t.Context(), 10*time.Minute, items...))
	<-began
	require.NoError(t, j.run.Stop(t.Context(), job.Stop{}))
	stopped, err := j.wait()
	require.NoError(t, err)
	require.Equal(t, job.Stopped, stopped.State)
	require.Less(t, stopped.Done(), int64(50))
	close(gate)
	run, err := s.client.Resume(t.Context(), j.spec.Name, jobs.ResumeOptions{})
	require.NoError(t, err)
	j.run = run
	j.ids = append(j.ids, run.ID())
	again := jobs.NewFeed[string, string](s.client, j.spec.Name, jobs.FeedOptions{})
	t.Cleanup(again.Release)
	got, err := again.Call(t.Context(), "one more")
	require.NoError(t, err)
	require.Equal(t, "one more", got)
	require.NoError(t, again.Close(t.Context()))
	report := j.completes()
	require.EqualValues(t, 51, report.OK)
	return j, report
}

// Large items of many clients at once: what a workflow task accepts, refuses, runs and answers is less than Temporal
// takes, which would terminate the leg.
func TestD3_ManyLargeExchangesAtOnce(t *testing.T) {
	s := setup(t)
	j, _ := s.newFeed(t, "feed-crowd")
	j.spec.Feed.CapacityBytes = 32 << 20
	j.on(func(_ context.Context, text string) (string, error) { return fmt.Sprint(len(text), text[:3]), nil })
	j.start(jobs.StartOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // clients alone give up after one, and the machine may be busy
	t.Cleanup(cancel)
	var clients sync.WaitGroup
	for i := range 5 {
		feed := jobs.NewFeed[string, string](s.client, j.spec.Name, jobs.FeedOptions{})
		t.Cleanup(feed.Release)
		clients.Go(func() {
			size := 1_000_000 + i
			got, err := feed.Call(ctx, strings.Repeat("<", size))
			assert.NoError(t, err)
			assert.Equal(t, fmt.Sprint(size, "<<<"), got)
		})
	}
	clients.Wait()
	feed := jobs.NewFeed[string, string](s.client, j.spec.Name, jobs.FeedOptions{})
	t.Cleanup(feed.Release)
	require.NoError(t, feed.Close(ctx))
	require.EqualValues(t, 5, j.completes().Planned)
}

// P3: the window of a stage holds in every leg of a feed.
func TestFeed_WindowOfAStage(t *testing.T) {
	t.Parallel()
	s := setup(t)
	j, feed := s.newFeed(t, "feed-stage-window")
	j.spec.BatchItems, j.spec.Window = 1, slots
	j.spec.Stages = []job.Stage{{Name: "score", Pool: j.spec.Pool, Window: 1}}
	var running, most atomic.Int64
	j.on(func(_ context.Context, text string) (string, error) {
		n := running.Add(1)
		defer running.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(time.Millisecond) // the work
		return text, nil
	})
	j.start(jobs.StartOptions{})
	for range 20 {
		require.NoError(t, feed.PutWait(t.Context(), 10*time.Minute, make([]string, 10)...))
	}
	require.NoError(t, feed.Close(t.Context()))
	require.EqualValues(t, 200, j.completes().OK)
	require.EqualValues(t, 1, most.Load())
}
