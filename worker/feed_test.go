package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
)

// feed is a feed that a test talks to as clients do.
type feed struct {
	*cluster
	run  *jobs.Run
	leg  int // asked last
	sent int
}

// startFeed starts a feed.
func (c *cluster) startFeed(change func(*job.Spec)) *feed {
	c.t.Helper()
	spec := job.Spec{Name: "job", Pool: "pool", Feed: &job.Feed{}, Output: filepath.Join(c.dir, "out"), Backoff: time.Millisecond}
	if change != nil {
		change(&spec)
	}
	run, err := jobs.NewClient(c.client, nil).Start(c.t.Context(), spec, nil)
	require.NoError(c.t, err)
	return &feed{cluster: c, run: run, leg: 1}
}

// update sends an update to a workflow, until there is one.
func (f *feed) update(id func() string, name string, argument, answer any) error {
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	f.sent++
	key := fmt.Sprintf("test-%d", f.sent)
	for {
		h, err := f.client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			WorkflowID: id(), UpdateID: key, UpdateName: name, Args: []any{argument}, WaitForStage: client.WorkflowUpdateStageCompleted,
		})
		if err == nil {
			err = h.Get(ctx, answer)
		}
		var refused *temporal.ApplicationError
		var missing *serviceerror.NotFound
		switch {
		case errors.As(err, &refused) && refused.Type() == wire.RefusedMoved:
			var detail wire.Refusal
			require.NoError(f.t, refused.Details(&detail))
			f.leg = detail.Leg
		case errors.As(err, &refused) && (refused.Type() == wire.RefusedEarly || refused.Type() == wire.RefusedNotYet):
		case errors.As(err, &missing) && ctx.Err() == nil && f.running(): // a leg that is to start
		default:
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond): // as clients do
		}
	}
}

func (f *feed) running() bool {
	d, err := f.client.DescribeWorkflowExecution(f.t.Context(), "job", "")
	require.NoError(f.t, err)
	return d.GetWorkflowExecutionInfo().GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING
}

// find finds the leg that takes items.
func (f *feed) find() {
	f.t.Helper()
	f.leg = 0
	require.Eventually(f.t, func() bool {
		d, err := f.client.DescribeWorkflowExecution(f.t.Context(), "job", "")
		require.NoError(f.t, err)
		payload := d.GetWorkflowExecutionInfo().GetMemo().GetFields()[wire.MemoLeg]
		return payload != nil && converter.GetDefaultDataConverter().FromPayload(payload, &f.leg) == nil && f.leg > 0
	}, 5*patience, 10*time.Millisecond)
}

func (f *feed) exchange(x wire.Exchange) (a wire.Exchanged, err error) {
	x.Client = "test"
	return a, f.update(func() string { return wire.LegID("job", f.leg) }, wire.UpdateExchange, x, &a)
}

// put puts items whose results nobody wants.
func (f *feed) put(items ...json.RawMessage) wire.Exchanged {
	f.t.Helper()
	a, err := f.exchange(wire.Exchange{Items: items})
	require.NoError(f.t, err)
	return a
}

// call puts items and waits for their results, by ordinal.
func (f *feed) call(items ...json.RawMessage) map[int64]wire.ItemResult {
	f.t.Helper()
	a, err := f.exchange(wire.Exchange{Items: items, Want: true, Wait: wire.MaxExchangeWait})
	require.NoError(f.t, err)
	found := map[int64]wire.ItemResult{}
	for {
		for _, r := range a.Results {
			require.NotContains(f.t, found, r.Item, "each result comes once")
			found[r.Item] = r
		}
		if len(found) == len(items) {
			require.Zero(f.t, a.Pending)
			return found
		}
		require.Positive(f.t, a.Pending)
		a, err = f.exchange(wire.Exchange{Wait: wire.MaxExchangeWait})
		require.NoError(f.t, err)
	}
}

func (f *feed) close() {
	f.t.Helper()
	require.NoError(f.t, f.update(func() string { return "job" }, wire.UpdateClose, nil, nil))
}

func values(from, n int) []json.RawMessage {
	var all []json.RawMessage
	for i := range n {
		all = append(all, fmt.Appendf(nil, "%d", from+i))
	}
	return all
}

// lines is a file of numbers, each of them a line.
func lines(from, n int, of func(int) int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintln(&text, of(from+i))
	}
	return text.String()
}

func double(n int) int { return 2 * n }

// F3, F5: items are answered, recorded, and the feed completes when it is closed.
func TestFeed_F5_Close(t *testing.T) {
	t.Parallel()
	c := setup(t)
	gate := make(chan struct{})
	c.serve(worker.Each(func(_ context.Context, n int) (int, error) {
		if n == 13 {
			<-gate
		}
		if n%7 == 0 {
			return 0, fmt.Errorf("%d is bad", n)
		}
		return 2 * n, nil
	}), worker.Options{Slots: 2})
	f := c.startFeed(nil)
	results := f.call(values(1, 10)...)
	for o, r := range results {
		if n := o + 1; n == 7 {
			var failure job.Failure
			require.NoError(t, json.Unmarshal(r.Failure, &failure))
			require.Equal(t, "7 is bad", failure.Error.Message)
			require.Equal(t, job.KindError, failure.Kind)
		} else {
			require.Equal(t, fmt.Sprint(2*n), string(r.Result))
		}
	}
	f.put(values(11, 3)...)
	f.close()
	f.close() // F5: idempotent
	_, err := f.exchange(wire.Exchange{Items: values(1, 1)})
	var refused *temporal.ApplicationError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, wire.RefusedClosed, refused.Type())
	close(gate)
	report := c.wait(f.run)
	require.Equal(t, job.Completed, report.State)
	require.EqualValues(t, 13, report.Planned)
	require.EqualValues(t, 12, report.OK)
	require.EqualValues(t, 1, report.Failed)
	require.EqualValues(t, 13, report.Feed.Accepted)
	require.Equal(t, "2\n4\n6\n8\n10\n12\n16\n18\n20\n22\n24\n26\n", c.read("out"))
	require.Contains(t, c.read("out.errors.jsonl"), `"source":"feed job"`)
}

// S12 for feeds: what a stop leaves is run by the job that continues, once.
func TestFeed_S12_StopAndResume(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"stop", "terminate"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			c := setup(t)
			gate := make(chan struct{})
			started := make(chan int, 1000)
			c.serve(worker.Each(func(ctx context.Context, n int) (int, error) {
				started <- n
				select {
				case <-gate:
				case <-worker.Stopping(ctx):
					if end == "terminate" {
						<-ctx.Done()
						return 0, ctx.Err()
					}
				}
				return 2 * n, nil
			}), worker.Options{Slots: 2})
			f := c.startFeed(func(s *job.Spec) { s.BatchItems = 3; s.Expiry = 2 * time.Second })
			f.put(values(1, 200)...)
			<-started
			<-started
			if end == "stop" {
				require.NoError(t, f.run.Stop(t.Context(), job.Stop{}))
				report := c.wait(f.run)
				require.Equal(t, job.Stopped, report.State)
				require.EqualValues(t, 200, report.Planned)
				require.Less(t, report.Done(), int64(200))
			} else {
				require.NoError(t, c.client.TerminateWorkflow(t.Context(), "job", "", "test"))
			}
			close(gate)
			run, err := jobs.NewClient(c.client, nil).Resume(t.Context(), "job", jobs.ResumeOptions{})
			require.NoError(t, err)
			f.run = run
			f.find()
			results := f.call(values(201, 20)...)
			require.Contains(t, results, int64(219), "ordinals continue")
			f.close()
			report := c.wait(run)
			require.Equal(t, job.Completed, report.State)
			require.EqualValues(t, 220, report.Planned)
			require.EqualValues(t, 220, report.OK)
			require.Equal(t, lines(1, 220, double), c.read("out"))
		})
	}
}

// F4: what waits is discarded and counted, what runs is recorded, and its results never show.
func TestFeed_F4_Reset(t *testing.T) {
	t.Parallel()
	c := setup(t)
	gate := make(chan struct{})
	started := make(chan int, 100)
	c.serve(worker.Each(func(_ context.Context, n int) (int, error) {
		started <- n
		<-gate
		return 2 * n, nil
	}), worker.Options{Slots: 1})
	f := c.startFeed(func(s *job.Spec) { s.BatchItems = 2 })
	f.put(values(1, 10)...)
	<-started
	var done wire.ResetDone
	require.NoError(t, f.update(func() string { return wire.LegID("job", f.leg) }, wire.UpdateReset, wire.Reset{}, &done))
	require.EqualValues(t, 2, done.Session)
	require.EqualValues(t, 8, done.Discarded)
	close(gate)
	results := f.call(values(100, 3)...)
	for _, r := range results {
		require.EqualValues(t, 2, r.Session)
	}
	f.close()
	report := c.wait(f.run)
	require.EqualValues(t, 13, report.Planned)
	require.EqualValues(t, 5, report.OK)
	require.EqualValues(t, 8, report.Discarded)
	require.Equal(t, "2\n4\n200\n202\n204\n", c.read("out"))
}

// F9: results that are too large to be sent are in the output, and their clients know.
func TestFeed_F9_LargeResults(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.serve(worker.Each(func(_ context.Context, n int) (string, error) { return strings.Repeat("x", n), nil }), worker.Options{Slots: 1})
	f := c.startFeed(nil)
	results := f.call(json.RawMessage("300000"))
	require.True(t, results[0].Stored)
	results = f.call(json.RawMessage("3"))
	require.Equal(t, `"xxx"`, string(results[1].Result))
	f.close()
	require.Equal(t, job.Completed, c.wait(f.run).State)
	info, err := os.Stat(filepath.Join(c.dir, "out"))
	require.NoError(t, err)
	require.EqualValues(t, 300003+6, info.Size())
}

// F7: hundreds of callers at once, of one client and of several, get their own results.
func TestFeed_F7_ManyCallers(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.serve(worker.Each(func(_ context.Context, n int) (int, error) { return 2 * n, nil }), worker.Options{Slots: 4})
	f := c.startFeed(nil)
	var all sync.WaitGroup
	for client := range 3 {
		feed := jobs.NewFeed[int, int](jobs.NewClient(c.client, nil), "job", jobs.FeedOptions{})
		t.Cleanup(feed.Release)
		for caller := range 64 {
			all.Go(func() {
				for i := range 5 {
					n := client*1_000_000 + caller*1000 + i
					got, err := feed.Call(t.Context(), n)
					if !assert.NoError(t, err) || !assert.Equal(t, 2*n, got) {
						return
					}
				}
			})
		}
	}
	all.Wait()
	feed := jobs.NewFeed[int, int](jobs.NewClient(c.client, nil), "job", jobs.FeedOptions{})
	t.Cleanup(feed.Release)
	idle, err := feed.Idle(t.Context())
	require.NoError(t, err)
	require.True(t, idle)
	require.NoError(t, feed.Close(t.Context()))
	report := c.wait(f.run)
	require.EqualValues(t, 3*64*5, report.OK)
	t.Logf("%d batches, calls of %d to %d items", report.Batches, report.CallMin, report.CallMax)
	isCode(t, feed.Put(t.Context(), 1), jobs.CodeClosed)
}

// F6: a stream gives results in order, however the items run.
func TestFeed_F6_Stream(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.serve(worker.Each(func(_ context.Context, n int) (int, error) { return 2 * n, nil }), worker.Options{Slots: 4})
	f := c.startFeed(nil)
	feed := jobs.NewFeed[int, int](jobs.NewClient(c.client, nil), "job", jobs.FeedOptions{})
	t.Cleanup(feed.Release)
	numbers := func(yield func(int) bool) {
		for n := range 5000 {
			if !yield(n) {
				return
			}
		}
	}
	next := 0
	for r, err := range feed.Stream(t.Context(), numbers, jobs.StreamOptions{}) {
		require.NoError(t, err)
		require.Equal(t, 2*next, r.Out)
		next++
	}
	require.Equal(t, 5000, next)
	require.NoError(t, feed.Close(t.Context()))
	report := c.wait(f.run)
	require.EqualValues(t, 5000, report.OK)
	t.Logf("%d batches", report.Batches)
}

// G1: what waits in a feed that is terminated may be more than fits into any message.
func TestFeed_G1_LargeBacklog(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	c := setup(t)
	gate := make(chan struct{})
	c.serve(worker.Each(func(ctx context.Context, s string) (int, error) { return len(s), pass(ctx, gate) }), worker.Options{Slots: 1})
	f := c.startFeed(func(s *job.Spec) { s.Feed.CapacityBytes, s.Expiry, s.BatchItems = 16<<20, 2*time.Second, 1 })
	large, _ := json.Marshal(strings.Repeat("x", 100_000))
	for range 4 {
		f.put(large, large, large, large, large, large, large, large, large)
	}
	require.NoError(t, c.client.TerminateWorkflow(t.Context(), "job", "", "test"))
	run, err := jobs.NewClient(c.client, nil).Resume(t.Context(), "job", jobs.ResumeOptions{})
	require.NoError(t, err)
	close(gate)
	f.run = run
	f.find()
	f.close()
	report := c.wait(run)
	require.Equal(t, job.Completed, report.State)
	require.EqualValues(t, 36, report.OK)
	require.Equal(t, strings.Repeat("100000\n", 36), c.read("out"))
}

// G1: if Temporal ends a leg, the job fails, and goes on from all that the leg had accepted.
func TestFeed_G1_LegTerminated(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	c := setup(t)
	gate, began := make(chan struct{}), make(chan struct{}, 1000)
	c.serve(worker.Each(func(ctx context.Context, n int) (int, error) {
		began <- struct{}{}
		return 2 * n, pass(ctx, gate)
	}), worker.Options{Slots: 2})
	f := c.startFeed(func(s *job.Spec) { s.BatchItems, s.Expiry, s.Grace = 3, 2*time.Second, time.Second })
	f.put(values(1, 100)...)
	<-began
	require.NoError(t, c.client.TerminateWorkflow(t.Context(), wire.LegID("job", f.leg), "", "test"))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := f.run.Wait(ctx)
	var failed *jobs.FailedError
	require.ErrorAs(t, err, &failed)
	close(gate)
	f.run, err = jobs.NewClient(c.client, nil).Resume(t.Context(), "job", jobs.ResumeOptions{})
	require.NoError(t, err)
	f.find()
	f.call(values(101, 5)...)
	f.close()
	report := c.wait(f.run)
	require.Equal(t, job.Completed, report.State)
	require.EqualValues(t, 105, report.OK)
	require.Equal(t, lines(1, 105, double), c.read("out"))
}

// G1: if the server has removed the history of a leg before the feed is resumed (its namespace's retention is over,
// say), the feed goes on with what the store and the job know: items of which nothing is left have failed, and the
// report says how many, and whose they were.
func TestFeed_G1_LegHistoryGone(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	c := setup(t)
	const quick, items = 60, 100
	gate := make(chan struct{})
	c.serve(worker.Each(func(ctx context.Context, n int) (string, error) {
		if n < quick {
			return strings.Repeat("x", 30_000), nil // a commit's bytes: the job hears of the leg
		}
		return "late", pass(ctx, gate)
	}), worker.Options{Slots: 2})
	f := c.startFeed(func(s *job.Spec) { s.BatchItems, s.Expiry = 1, 2*time.Second })
	f.put(values(0, items)...)
	require.Eventually(t, func() bool {
		value, err := c.client.QueryWorkflow(t.Context(), "job", "", wire.QueryReport)
		var known wire.Answer
		return err == nil && value.Get(&known) == nil && known.Report.Planned == items
	}, 5*patience, 10*time.Millisecond)
	require.NoError(t, c.client.TerminateWorkflow(t.Context(), "job", "", "test"))
	leg := wire.LegID("job", f.leg)
	c.remove(leg)
	close(gate)
	f.run = c.resume()
	f.find()
	results := f.call(values(items, 3)...)
	require.Contains(t, results, int64(items+2), "ordinals continue")
	f.close()
	report := c.wait(f.run)
	require.Equal(t, job.Completed, report.State)
	require.EqualValues(t, items+3, report.Planned)
	require.GreaterOrEqual(t, report.Failed, int64(items-quick))
	require.Less(t, report.Failed, int64(items), "what was committed counts")
	require.EqualValues(t, items+3, report.OK+report.Failed)
	require.Equal(t, report.Failed, report.Feed.Lost)
	require.Equal(t, []string{leg}, report.Feed.Gone)
	require.Equal(t, job.KindLost, report.FirstError.Kind)
	failures := c.read("out.errors.jsonl")
	require.EqualValues(t, report.Failed, strings.Count(failures, `"kind":"lost"`))
	require.Contains(t, failures, `{"item":99,"source":"feed job","offset":0,"input":null,"kind":"lost"`)
	require.EqualValues(t, report.OK, strings.Count(c.read("out"), "\n"))
}

// remove has the server forget a workflow, as it does after its retention.
func (c *cluster) remove(id string) {
	c.t.Helper()
	_, err := c.client.WorkflowService().DeleteWorkflowExecution(c.t.Context(), &workflowservice.DeleteWorkflowExecutionRequest{
		Namespace: "default", WorkflowExecution: &common.WorkflowExecution{WorkflowId: id},
	})
	require.NoError(c.t, err)
	require.Eventually(c.t, func() bool {
		_, err := c.client.DescribeWorkflowExecution(c.t.Context(), id, "")
		return errors.As(err, new(*serviceerror.NotFound))
	}, 5*patience, 10*time.Millisecond)
}

// Items reach a filter byte for byte as they were put, in compact form: nothing is escaped on the way, also over a
// stop.
func TestFeed_ItemsByteForByte(t *testing.T) {
	t.Parallel()
	c := setup(t)
	seen := filepath.Join(c.dir, "seen")
	hold := filepath.Join(c.dir, "hold")
	require.NoError(t, os.WriteFile(hold, nil, 0o600))
	c.serve(worker.Exec("sh", "-c", "while test -e "+hold+"; do sleep 0.02; done; tee -a "+seen), worker.Options{Slots: 1})
	f := c.startFeed(func(s *job.Spec) { s.BatchItems = 1 })
	feed := jobs.NewFeed[any, json.RawMessage](jobs.NewClient(c.client, nil), "job", jobs.FeedOptions{})
	t.Cleanup(feed.Release)
	type page struct{ HTML string }
	raw := json.RawMessage("{ \"k\": \"<i>\", \"esc\": \"\\u003c\", \"n\": 1.50, \"sep\": \"\u2028\" }")
	require.NoError(t, feed.Put(t.Context(), page{"<b>&</b>"}, raw, "plain"))
	require.NoError(t, f.run.Stop(t.Context(), job.Stop{Grace: "0s"})) // the items are spilled, and read again
	require.Equal(t, job.Stopped, c.wait(f.run).State)
	require.NoError(t, os.Remove(hold))
	run, err := jobs.NewClient(c.client, nil).Resume(t.Context(), "job", jobs.ResumeOptions{})
	require.NoError(t, err)
	f.find()
	again := jobs.NewFeed[any, json.RawMessage](jobs.NewClient(c.client, nil), "job", jobs.FeedOptions{})
	t.Cleanup(again.Release)
	got, err := again.Call(t.Context(), []string{"a<b", "c>d"})
	require.NoError(t, err)
	require.JSONEq(t, `["a<b","c>d"]`, string(got))
	f.close()
	require.Equal(t, job.Completed, c.wait(run).State)
	compact := "{\"k\":\"<i>\",\"esc\":\"\\u003c\",\"n\":1.50,\"sep\":\"\u2028\"}"
	require.ElementsMatch(t, []string{`{"HTML":"<b>&</b>"}`, compact, `"plain"`, `["a<b","c>d"]`}, strings.Split(strings.TrimSpace(c.read("seen")), "\n"))
	require.Equal(t, []string{`{"HTML":"<b>&</b>"}`, compact, `"plain"`, `["a<b","c>d"]`}, strings.Split(strings.TrimSpace(c.read("out")), "\n"))
}

// G1: a feed that is terminated again while it does what an earlier run has left goes on from there, too.
func TestFeed_G1_TerminatedAgain(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	c := setup(t)
	const items = 150
	began := make(chan int, 10*items)
	gate := make(chan struct{})
	c.serve(worker.Each(func(ctx context.Context, n int) (int, error) {
		began <- n
		if n%50 > 20 {
			return 2 * n, nil
		}
		return 2 * n, pass(ctx, gate)
	}), worker.Options{Slots: 2})
	f := c.startFeed(func(s *job.Spec) { s.BatchItems, s.Expiry = 1, 2*time.Second })
	f.put(values(0, items)...) // some of them do not end
	for range 2 {
		<-began
		require.NoError(t, c.client.TerminateWorkflow(t.Context(), "job", "", "test"))
		f.run = c.resume()
	}
	close(gate)
	f.find()
	f.close()
	report := c.wait(f.run)
	require.Equal(t, job.Completed, report.State)
	require.EqualValues(t, items, report.OK)
	require.Equal(t, lines(0, items, double), c.read("out"))
}

// G1: wherever Temporal ends the runs that are to go on from a feed's items, no item is lost. Some of these runs have
// begun to commit what the first one had accepted, and have not done it.
func TestFeed_G1_TerminatedAtEachEvent(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	c := setup(t)
	const items = 40
	gate := make(chan struct{})
	c.serve(worker.Each(func(ctx context.Context, n int) (int, error) { return 2 * n, pass(ctx, gate) }), worker.Options{Slots: 2})
	f := c.startFeed(func(s *job.Spec) { s.BatchItems, s.Expiry = 1, 2*time.Second })
	f.put(values(0, items)...)
	require.NoError(t, c.client.TerminateWorkflow(t.Context(), "job", "", "test"))
	c.terminateAtEachEvent(17)
	close(gate)
	f.run = c.resume()
	f.find()
	f.close()
	report := c.wait(f.run)
	require.Equal(t, job.Completed, report.State)
	require.EqualValues(t, items, report.OK)
	require.Equal(t, lines(0, items, double), c.read("out"))
}

// Each bad input is a typed error that says what is wrong, and costs nothing else.
func TestFeed_BadInput(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	c := setup(t)
	c.serve(worker.Each(func(_ context.Context, v any) (any, error) {
		if v == "bad" {
			return nil, errors.New("no good")
		}
		return v, nil
	}), worker.Options{Slots: 2})
	client := jobs.NewClient(c.client, nil)
	open := func(name string) *jobs.Feed[any, json.RawMessage] {
		feed := jobs.NewFeed[any, json.RawMessage](client, name, jobs.FeedOptions{})
		t.Cleanup(feed.Release)
		return feed
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	f := c.startFeed(func(s *job.Spec) { s.Feed.Capacity, s.Feed.CapacityBytes = 4, 1<<20 })
	feed := open("job")
	require.NoError(t, feed.PutWait(ctx, patience, 1, 2))

	t.Run("items and lists", func(t *testing.T) { //nolint:paralleltest // one after the other
		call := func(item any) error { _, err := feed.Call(ctx, item); return err }
		huge := strings.Repeat("x", jobs.MaxPutBytes)
		for _, test := range []struct {
			name, says string
			err        error
		}{
			{"an item over the limit", "put a path or URL for the handler to read", feed.Put(ctx, huge)},
			{"a call with an item like that", "put a path or URL for the handler to read", call(huge)},
			{"a list over the limit", "put at most", feed.Put(ctx, make([]any, jobs.MaxPutItems+1)...)},
			{"a list above the capacity", "put at most", feed.PutWait(ctx, time.Minute, 1, 2, 3, 4, 5)},
			{"a list above the capacity in bytes", "put at most", feed.PutWait(ctx, time.Minute, huge[2:], 1)},
		} {
			isCode(t, test.err, jobs.CodeTooLarge)
			require.Contains(t, test.err.Error(), test.says, test.name)
		}
		for name, bad := range map[string]any{"not JSON": json.RawMessage("{a}"), "NaN": math.NaN(), "infinity": math.Inf(1), "a channel": make(chan int)} {
			require.True(t, jobs.IsCode(feed.Put(ctx, 1, bad), jobs.CodeInvalidItem), name)
			_, err := feed.Call(ctx, bad)
			require.True(t, jobs.IsCode(err, jobs.CodeInvalidItem), name)
		}
	})
	t.Run("two feeds of one name", func(t *testing.T) { //nolint:paralleltest // one after the other
		_, err := client.Start(ctx, job.Spec{Name: "job", Pool: "pool", Feed: &job.Feed{}, Output: filepath.Join(c.dir, "other")}, nil)
		require.ErrorAs(t, err, new(*jobs.ExistsError))
	})
	t.Run("a reset during a reset", func(t *testing.T) { //nolint:paralleltest // one after the other
		const resets = 8
		sessions := make(chan int64, resets)
		var all sync.WaitGroup
		for range resets {
			all.Go(func() {
				done, err := feed.Reset(ctx)
				assert.NoError(t, err)
				sessions <- done.Session
			})
		}
		all.Wait()
		close(sessions)
		seen := map[int64]bool{}
		for s := range sessions {
			require.False(t, seen[s], "each begins a session of its own")
			seen[s] = true
		}
	})
	t.Run("feeds that take nothing", func(t *testing.T) { //nolint:paralleltest // one after the other
		end := func(name string, end func(*jobs.Run)) *jobs.Feed[any, json.RawMessage] {
			run := c.startFeed(func(s *job.Spec) { s.Name, s.Output, s.MaxFailed = name, filepath.Join(c.dir, name), "0" }).run
			other := open(name)
			require.NoError(t, other.PutWait(ctx, patience, 1))
			end(run)
			_, _ = run.Wait(ctx)
			return other
		}
		stopped := end("stopped", func(r *jobs.Run) { require.NoError(t, r.Stop(ctx, job.Stop{})) })
		failed := end("failed", func(*jobs.Run) { require.NoError(t, open("failed").Put(ctx, "bad")) })
		terminated := end("cut", func(*jobs.Run) { require.NoError(t, c.client.TerminateWorkflow(ctx, "cut", "", "test")) })
		closed := end("closed", func(*jobs.Run) { require.NoError(t, open("closed").Close(ctx)) })
		for _, x := range []struct {
			feed *jobs.Feed[any, json.RawMessage]
			code jobs.FeedCode // empty: it is an error of jobs
			is   any
			says string
		}{
			{stopped, jobs.CodeStopped, new(*jobs.FeedError), "resume it"},
			{failed, "", new(*jobs.FailedError), "max-failed"},
			{terminated, "", new(*jobs.FailedError), "terminated"},
			{closed, jobs.CodeClosed, new(*jobs.FeedError), "has been closed"},
			{open("unknown"), "", new(*jobs.NotFoundError), "unknown"},
		} {
			_, err := x.feed.Call(ctx, 1)
			_, reset := x.feed.Reset(ctx)
			for _, err := range []error{x.feed.Put(ctx, 1), x.feed.PutWait(ctx, time.Minute, 1), err, reset} {
				require.ErrorAs(t, err, x.is)
				require.True(t, x.code == "" || jobs.IsCode(err, x.code))
				require.ErrorContains(t, err, x.says)
			}
		}
	})
	got, err := feed.Call(ctx, 3)
	require.NoError(t, err, "the others are unharmed")
	require.Equal(t, "3", string(got))
	require.NoError(t, feed.Close(ctx))
	report := c.wait(f.run)
	require.Equal(t, job.Completed, report.State)
	require.EqualValues(t, 3, report.Planned, "what is refused leaves no trace")
}
