package jobs_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/test/testserver"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	sdkclient "go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// The client of a feed against a real server. The feed's workflows are small ones of this test: they show how updates,
// refusals, ends and queries come back.

// plainLeg is the input of the test's leg.
type plainLeg struct {
	Number, Capacity int
}

// legFlow takes items until it is sealed, and runs an activity for each.
func legFlow(ctx workflow.Context, in plainLeg) error {
	var backlog, ordinal int
	var sealed, done bool
	session := int64(1)
	pending := map[string]int{}
	results := map[string][]wire.ItemResult{}
	refuse := func(kind string) error {
		return temporal.NewNonRetryableApplicationError("refused: "+kind, kind, nil, wire.Refusal{Leg: in.Number + 1, Session: session, Capacity: in.Capacity, CapacityBytes: 1 << 20, Backlog: backlog})
	}
	exchange := func(ctx workflow.Context, e wire.Exchange) (wire.Exchanged, error) {
		answer := wire.Exchanged{First: int64(ordinal), Session: session}
		for _, value := range e.Items {
			it := wire.ItemResult{Item: int64(ordinal), Session: session}
			ordinal++
			backlog++
			pending[e.Client]++
			workflow.Go(ctx, func(ctx workflow.Context) {
				ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}})
				var result json.RawMessage
				if err := workflow.ExecuteActivity(ctx, "echo", value).Get(ctx, &result); err != nil {
					it.Failure, _ = json.Marshal(job.Failure{Item: it.Item, Kind: job.KindError, Error: job.Error{Type: "Bad", Message: err.Error()}, Attempts: 1})
				}
				it.Result = result
				backlog--
				pending[e.Client]--
				results[e.Client] = append(results[e.Client], it)
			})
		}
		if e.Wait > 0 {
			_, _ = workflow.AwaitWithTimeout(ctx, e.Wait, func() bool { return len(results[e.Client]) > 0 || done })
		}
		answer.Results, answer.Pending = results[e.Client], pending[e.Client]
		delete(results, e.Client)
		return answer, nil
	}
	validate := func(_ workflow.Context, e wire.Exchange) error {
		switch {
		case len(e.Items) == 0:
			return nil
		case sealed:
			return refuse(wire.RefusedMoved)
		case len(e.Items) > in.Capacity:
			return refuse(wire.RefusedTooLarge)
		case backlog+len(e.Items) > in.Capacity:
			return refuse(wire.RefusedFull)
		}
		return nil
	}
	reset := func(workflow.Context, wire.Reset) (wire.ResetDone, error) {
		session++
		return wire.ResetDone{Session: session}, nil
	}
	if err := cmp.Or(
		workflow.SetUpdateHandlerWithOptions(ctx, wire.UpdateExchange, exchange, workflow.UpdateHandlerOptions{Validator: validate}),
		workflow.SetUpdateHandler(ctx, wire.UpdateReset, reset),
		workflow.SetQueryHandler(ctx, wire.QueryFeed, func() (job.FeedState, error) {
			return job.FeedState{Leg: in.Number, Open: !sealed, Session: session, Capacity: in.Capacity, CapacityBytes: 1 << 20, Backlog: backlog}, nil
		}),
		workflow.SetQueryHandler(ctx, wire.QueryItems, func(items []int64) ([]wire.ItemState, error) {
			var states []wire.ItemState
			for _, item := range items {
				states = append(states, wire.ItemState{Item: item, Left: true, Queued: 7 * time.Millisecond})
			}
			return states, nil
		}),
	); err != nil {
		return err
	}
	workflow.GetSignalChannel(ctx, "seal").Receive(ctx, nil)
	sealed = true
	workflow.GetSignalChannel(ctx, "end").Receive(ctx, nil)
	done = true
	return workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) })
}

// jobFlow is a feed's job: its memo names the open leg.
func jobFlow(ctx workflow.Context) (job.Report, error) {
	closed := false
	if err := workflow.SetUpdateHandler(ctx, wire.UpdateClose, func(workflow.Context) error { closed = true; return nil }); err != nil {
		return job.Report{}, err
	}
	next := workflow.GetSignalChannel(ctx, "next")
	stop := workflow.GetSignalChannel(ctx, wire.SignalStop)
	state := job.Completed
	for !closed && state == job.Completed {
		var leg int
		_ = workflow.Await(ctx, func() bool { return closed || next.Len() > 0 || stop.Len() > 0 })
		if next.ReceiveAsync(&leg) {
			_ = workflow.UpsertMemo(ctx, map[string]any{wire.MemoLeg: leg})
		}
		if stop.ReceiveAsync(nil) {
			state = job.Stopped
		}
	}
	_ = workflow.UpsertMemo(ctx, map[string]any{wire.MemoState: state})
	return job.Report{Job: workflow.GetInfo(ctx).WorkflowExecution.ID, State: state}, nil
}

// plainFeed is a feed on a real server.
type plainFeed struct {
	t      *testing.T
	server sdkclient.Client
	name   string
	hold   chan struct{} // closed when items may end
}

func plainServer(t *testing.T) sdkclient.Client {
	t.Helper()
	server, err := testserver.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	c, err := sdkclient.Dial(sdkclient.Options{HostPort: server.Address(), Logger: sdklog.NewStructuredLogger(silent)})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// start starts the feed's job, with one leg, and without a worker for it.
func startPlain(t *testing.T, server sdkclient.Client, name string, memo map[string]any) *plainFeed {
	t.Helper()
	f := &plainFeed{t: t, server: server, name: name, hold: make(chan struct{})}
	memo[wire.MemoPool], memo[wire.MemoState] = name, job.Running
	_, err := server.ExecuteWorkflow(t.Context(), sdkclient.StartWorkflowOptions{ID: name, TaskQueue: wire.WorkflowQueue, Memo: memo}, wire.WorkflowJob)
	require.NoError(t, err)
	return f
}

func (f *plainFeed) leg(number, capacity int) {
	f.t.Helper()
	_, err := f.server.ExecuteWorkflow(f.t.Context(), sdkclient.StartWorkflowOptions{
		ID: wire.LegID(f.name, number), TaskQueue: wire.PoolQueue(f.name),
	}, wire.WorkflowFeedLeg, plainLeg{Number: number, Capacity: capacity})
	require.NoError(f.t, err)
}

func (f *plainFeed) serve() {
	f.t.Helper()
	queues := []string{wire.WorkflowQueue, wire.PoolQueue(f.name)}
	for _, queue := range queues {
		w := sdkworker.New(f.server, queue, sdkworker.Options{WorkerStopTimeout: time.Second})
		w.RegisterWorkflowWithOptions(jobFlow, workflow.RegisterOptions{Name: wire.WorkflowJob})
		w.RegisterWorkflowWithOptions(legFlow, workflow.RegisterOptions{Name: wire.WorkflowFeedLeg})
		w.RegisterActivityWithOptions(f.echo, activity.RegisterOptions{Name: "echo"})
		w.RegisterWorkflowWithOptions(bareFlow, workflow.RegisterOptions{Name: "bare"})
		require.NoError(f.t, w.Start())
		f.t.Cleanup(w.Stop)
	}
}

// echo returns an item; "held" when it may, and "bad" an error.
func (f *plainFeed) echo(ctx context.Context, item json.RawMessage) (json.RawMessage, error) {
	switch string(item) {
	case `"bad"`:
		return nil, errors.New("no good")
	case `"held"`:
		select {
		case <-f.hold:
		case <-ctx.Done():
		}
	}
	return item, nil
}

func (f *plainFeed) signal(workflowID, name string, arg any) {
	f.t.Helper()
	require.NoError(f.t, f.server.SignalWorkflow(f.t.Context(), workflowID, "", name, arg))
}

// bareFlow is what a call is measured against: an update that runs an activity.
func bareFlow(ctx workflow.Context) error {
	err := workflow.SetUpdateHandler(ctx, "run", func(ctx workflow.Context, value json.RawMessage) (result json.RawMessage, err error) {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		err = workflow.ExecuteActivity(ctx, "echo", value).Get(ctx, &result)
		return result, err
	})
	if err != nil {
		return err
	}
	workflow.GetSignalChannel(ctx, "end").Receive(ctx, nil)
	return nil
}

// callTooLate makes a call whose deadline passes, and returns how long the item was in the queue, as far as the feed
// has said so in time.
func callTooLate(t *testing.T, feed *jobs.Feed[string, string]) *time.Duration {
	t.Helper()
	began := time.Now()
	_, err := feed.State(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second+100*time.Since(began)) // the feed accepts it within that on a busy machine, too
	defer cancel()
	_, err = feed.Call(ctx, "held")
	var late *jobs.FeedError
	require.ErrorAs(t, err, &late)
	require.Equal(t, jobs.CodeTimeout, late.Code)
	require.True(t, late.Accepted)
	return late.Queued
}

// What a feed answers and refuses comes back as results and typed errors; a leg that is sealed is followed by the next.
func TestFeed_OnAServer(t *testing.T) {
	t.Parallel()
	server := plainServer(t)
	f := startPlain(t, server, "risk", map[string]any{wire.MemoLeg: 1})
	f.leg(1, 3)
	f.serve()
	c := jobs.NewClient(server, nil)
	feed := jobs.NewFeed[string, string](c, "risk", jobs.FeedOptions{})
	defer feed.Release()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()

	out, err := feed.Call(ctx, "a")
	require.NoError(t, err)
	require.Equal(t, "a", out)
	_, err = feed.Call(ctx, "bad")
	var failed *jobs.FeedError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, jobs.CodeItem, failed.Code)
	require.Equal(t, "Bad", failed.Failure.Error.Type)

	require.NoError(t, feed.Put(ctx, "held", "held"))
	require.Equal(t, &jobs.FeedError{Code: jobs.CodeFull, Feed: "risk", MaxItems: 3, MaxBytes: 1 << 20, Items: 2}, feed.Put(ctx, "x", "y"))
	require.Equal(t, &jobs.FeedError{Code: jobs.CodeTooLarge, Feed: "risk", Items: 4, Bytes: 12, MaxItems: 3, MaxBytes: 1 << 20}, feed.Put(ctx, "1", "2", "3", "4"))

	queued := callTooLate(t, feed)
	for try := 1; queued == nil; try++ { // it is asked for just before the deadline, and the machine is busy
		require.Less(t, try, 10)
		name := fmt.Sprint("late-", try)
		f := startPlain(t, server, name, map[string]any{wire.MemoLeg: 1})
		f.leg(1, 3)
		f.serve()
		t.Cleanup(func() { close(f.hold) })
		feed := jobs.NewFeed[string, string](c, name, jobs.FeedOptions{})
		defer feed.Release()
		queued = callTooLate(t, feed)
	}
	require.Equal(t, 7*time.Millisecond, *queued)
	state, err := feed.State(ctx)
	require.NoError(t, err)
	require.Equal(t, 3, state.Backlog)
	is, err := feed.Full(ctx)
	require.NoError(t, err)
	require.True(t, is)

	f.leg(2, 100)
	f.signal(wire.LegID("risk", 1), "seal", nil)
	require.Eventually(t, func() bool {
		value, err := server.QueryWorkflow(ctx, wire.LegID("risk", 1), "", wire.QueryFeed)
		return err == nil && value.Get(&state) == nil && !state.Open
	}, time.Minute, 10*time.Millisecond)
	out, err = feed.Call(ctx, "b")
	require.NoError(t, err)
	require.Equal(t, "b", out)
	f.signal("risk", "next", 2)
	close(f.hold)

	other := jobs.NewFeed[string, string](c, "risk", jobs.FeedOptions{})
	defer other.Release()
	require.Eventually(t, func() bool { is, err := other.Idle(ctx); return err == nil && is }, time.Minute, 10*time.Millisecond)
	index := 0
	for r, err := range feed.Stream(ctx, slices.Values(numberedItems(200)), jobs.StreamOptions{}) {
		require.NoError(t, err)
		require.Equal(t, strconv.Itoa(index), r.Out)
		index++
	}
	require.Equal(t, 200, index)

	reset, err := feed.Reset(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 2, reset.Session)
	require.NoError(t, feed.Close(ctx))
	f.signal(wire.LegID("risk", 2), "seal", nil)
	f.signal(wire.LegID("risk", 2), "end", nil)
	require.NoError(t, server.GetWorkflow(ctx, "risk", "").Get(ctx, nil))
	require.NoError(t, server.GetWorkflow(ctx, wire.LegID("risk", 2), "").Get(ctx, nil))
	require.True(t, jobs.IsCode(feed.Put(ctx, "late"), jobs.CodeClosed))
	_, err = feed.State(ctx)
	require.True(t, jobs.IsCode(err, jobs.CodeClosed))
	require.NoError(t, feed.Close(ctx), "it has been closed")
}

func numberedItems(n int) []string {
	items := make([]string, n)
	for i := range items {
		items[i] = strconv.Itoa(i)
	}
	return items
}

// F8: whatever ends a feed, whoever waits gets a typed error, and so does who comes later.
func TestFeed_EndsOnAServer(t *testing.T) {
	t.Parallel()
	server := plainServer(t)
	c := jobs.NewClient(server, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for name, test := range map[string]struct {
		end  func(f *plainFeed)
		want error
	}{
		"stopped": {func(f *plainFeed) {
			f.signal(f.name, wire.SignalStop, nil)
			require.NoError(t, server.GetWorkflow(ctx, f.name, "").Get(ctx, nil))
			require.NoError(t, server.TerminateWorkflow(ctx, wire.LegID(f.name, 1), "", "test"))
		}, &jobs.FeedError{Code: jobs.CodeStopped, Feed: "stopped", State: job.Stopped}},
		"terminated": {func(f *plainFeed) {
			require.NoError(t, server.TerminateWorkflow(ctx, f.name, "", "test"))
			require.NoError(t, server.TerminateWorkflow(ctx, wire.LegID(f.name, 1), "", "test"))
		}, &jobs.FailedError{}},
	} {
		f := startPlain(t, server, name, map[string]any{wire.MemoLeg: 1})
		f.leg(1, 10)
		f.serve()
		feed := jobs.NewFeed[string, string](c, name, jobs.FeedOptions{})
		defer feed.Release()
		require.NoError(t, feed.Put(ctx, "a"))
		waiting := make(chan error, 1)
		go func() {
			_, err := feed.Call(ctx, "held")
			waiting <- err
		}()
		require.Eventually(t, func() bool {
			state, err := feed.State(ctx)
			return err == nil && state.Backlog == 1
		}, time.Minute, 10*time.Millisecond)
		test.end(f)
		woken := <-waiting
		for _, err := range []error{woken, feed.Put(ctx, "late"), feed.Close(ctx)} {
			require.IsType(t, test.want, err, "%s: %v", name, err)
			require.Equal(t, jobs.IsCode(test.want, jobs.CodeStopped), jobs.IsCode(err, jobs.CodeStopped), name)
		}
		close(f.hold)
	}
}

// A name that is not that of a feed, and a feed that nobody serves.
func TestFeed_NotServedOnAServer(t *testing.T) {
	t.Parallel()
	server := plainServer(t)
	c := jobs.NewClient(server, nil)
	call := func(name string, limit time.Duration) error {
		feed := jobs.NewFeed[string, string](c, name, jobs.FeedOptions{})
		defer feed.Release()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		_, err := feed.Call(ctx, "a")
		return err
	}
	var none *jobs.NotFoundError
	require.ErrorAs(t, call("unknown", time.Minute), &none)
	startPlain(t, server, "files", map[string]any{})
	require.True(t, jobs.IsCode(call("files", time.Minute), jobs.CodeNotFeed))

	f := startPlain(t, server, "lonely", map[string]any{wire.MemoLeg: 1})
	f.leg(1, 10)
	// On a busy machine two looks at who serves it take longer than the first of these limits.
	require.True(t, slices.ContainsFunc([]time.Duration{6 * time.Second, 30 * time.Second}, func(limit time.Duration) bool {
		return jobs.IsCode(call("lonely", limit), jobs.CodeUnserved)
	}), "within the call's limit")
	require.True(t, jobs.IsCode(call("lonely", time.Minute), jobs.CodeUnserved), "soon")
	startPlain(t, server, "new", map[string]any{wire.MemoLeg: 0})
	require.True(t, jobs.IsCode(call("new", time.Minute), jobs.CodeUnserved), "no leg is open yet")
}
