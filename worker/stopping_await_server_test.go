package worker_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
)

// serveThorough is serve by a worker that waits for an hour for stops that are under way, if it has to.
func (c *cluster) serveThorough(pool string, h worker.Handler, o worker.Options) *serving {
	c.t.Helper()
	o.Logger = silent
	w, err := worker.New(jobs.NewClient(c.client, nil), pool, h, o)
	require.NoError(c.t, err)
	w.SetStopsLimit(time.Hour)
	return c.run(w)
}

// awaitReady waits until the worker takes batches.
func (s *serving) awaitReady() {
	s.t.Helper()
	select {
	case <-s.ready:
	case err := <-s.ended:
		require.FailNow(s.t, "the worker has ended", "%v", err)
	case <-time.After(patience):
		require.FailNow(s.t, "the worker is not ready")
	}
}

// counting counts its calls, and passes items on.
func counting[T any](calls *atomic.Int64) worker.Handler {
	return worker.Each(func(_ context.Context, item T) (T, error) {
		calls.Add(1)
		return item, nil
	})
}

// untilStopped passes items on when the call should end. begun gets a value of the first call.
func untilStopped[T any](begun chan struct{}) worker.Handler {
	return worker.Each(func(ctx context.Context, item T) (T, error) {
		select {
		case begun <- struct{}{}:
		default:
		}
		<-worker.Stopping(ctx)
		return item, nil
	})
}

// S17: a pipeline is stopped while no worker is alive. The next worker of the pool of its second stage, whose batches
// lie in the queue, begins none of them.
func TestStop_S17_PoolOfALaterStage(t *testing.T) {
	t.Parallel()
	c := setup(t)
	begun := make(chan struct{}, 1)
	first := c.servePool("first", stageNamed("clean", nil, nil), worker.Options{Slots: 4})
	second := c.servePool("second", untilStopped[record](begun), worker.Options{Slots: 1})
	input, _ := numbers(200, nil)
	run := c.staged(input, func(s *job.Spec) { s.BatchItems, s.Expiry = 2, time.Hour })
	<-begun
	require.Eventually(t, func() bool { // what has come to the second stage waits there
		report, err := run.Report(t.Context())
		return err == nil && report.Stages[1].InFlight > 4
	}, patience, pollEvery)
	first.drain()
	second.drain()
	first.await()
	second.await()
	require.NoError(t, run.Stop(t.Context(), job.Stop{Reason: "enough", Grace: "1h"}))
	var called atomic.Int64
	c.serveThorough("second", counting[record](&called), worker.Options{Slots: 4}).awaitReady()
	require.Zero(t, called.Load())
	c.serveThorough("first", counting[record](&called), worker.Options{Slots: 4})
	report := c.wait(run)
	require.Equal(t, job.Stopped, report.State)
	require.Zero(t, called.Load())
}

// legsAreDeaf is the cluster for a client to which no leg ever answers a query.
func (c *cluster) legsAreDeaf() *cluster {
	c.t.Helper()
	asking, err := client.NewClientFromExisting(c.client, client.Options{
		Logger: log.NewStructuredLogger(silent), Interceptors: []interceptor.ClientInterceptor{&deaf{}},
	})
	require.NoError(c.t, err)
	c.t.Cleanup(asking.Close)
	return &cluster{t: c.t, client: asking, dir: c.dir}
}

type deaf struct {
	interceptor.ClientInterceptorBase
}

func (*deaf) InterceptClient(next interceptor.ClientOutboundInterceptor) interceptor.ClientOutboundInterceptor {
	return &deafLegs{interceptor.ClientOutboundInterceptorBase{Next: next}}
}

type deafLegs struct {
	interceptor.ClientOutboundInterceptorBase
}

func (d *deafLegs) QueryWorkflow(ctx context.Context, in *interceptor.ClientQueryWorkflowInput) (converter.EncodedValue, error) {
	if strings.Contains(in.WorkflowID, "/leg-") {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return d.ClientOutboundInterceptorBase.QueryWorkflow(ctx, in)
}

// The legs of a feed run on its pool's workers. The only one of them is started again while the feed runs: it is ready
// without a wait for legs that nobody else serves, and the items go on.
func TestFeed_S17_ReadyBesideItsLegs(t *testing.T) {
	t.Parallel()
	c := setup(t)
	first := c.serve(worker.Each(func(_ context.Context, n int) (int, error) { return 2 * n, nil }), worker.Options{Slots: 1})
	f := c.startFeed(nil)
	f.call(values(1, 3)...)
	first.drain()
	first.await()
	c.legsAreDeaf().serveThorough("pool", worker.Each(func(_ context.Context, n int) (int, error) { return 2 * n, nil }), worker.Options{Slots: 1}).awaitReady()
	f.call(values(4, 3)...)
	f.close()
	require.EqualValues(t, 6, c.wait(f.run).OK)
}

// S17: a feed is stopped while no worker is alive. Its next worker takes the stop in, with the legs that it serves,
// before it begins any of the items that wait.
func TestFeed_S17_StoppedWhileNoWorkerIsAlive(t *testing.T) {
	t.Parallel()
	c := setup(t)
	begun := make(chan struct{}, 1)
	first := c.serve(untilStopped[json.RawMessage](begun), worker.Options{Slots: 1})
	f := c.startFeed(func(s *job.Spec) { s.BatchItems, s.Window, s.Feed.Capacity = 1, 30, 100 })
	f.put(values(1, 60)...)
	<-begun
	require.Eventually(t, func() bool {
		report, err := f.run.Report(t.Context())
		return err == nil && report.InFlight > 4
	}, patience, pollEvery)
	first.drain()
	first.await()
	require.NoError(t, f.run.Stop(t.Context(), job.Stop{Reason: "enough", Grace: "1h"}))
	var called atomic.Int64
	c.serveThorough("pool", counting[json.RawMessage](&called), worker.Options{Slots: 4}).awaitReady()
	report := c.wait(f.run)
	require.Equal(t, job.Stopped, report.State)
	require.EqualValues(t, 60, report.Planned)
	require.Zero(t, called.Load())
}
