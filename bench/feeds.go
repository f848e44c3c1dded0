package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	sdkclient "go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// feeding is a feed with everything embedded.
type feeding struct {
	address  string // of the server
	temporal sdkclient.Client
	client   *jobs.Client
	run      *jobs.Run
	output   string
	stop     func() error
}

// startFeeding starts a server, a worker and a feed.
func startFeeding(args []string, h worker.Handler, options worker.Options, spec job.Spec) (*feeding, error) {
	spec.Feed = cmp.Or(spec.Feed, &job.Feed{})
	spec.Output, spec.Store = args[1], args[2]+"/store"
	return startBench(args, h, options, spec)
}

// startBench starts a server, a worker and a job.
func startBench(args []string, h worker.Handler, options worker.Options, spec job.Spec) (*feeding, error) {
	ctx := context.Background()
	output, state := args[1], args[2]
	quiet := slog.New(slog.DiscardHandler)
	server, c, err := serve(ctx, state, quiet)
	if err != nil {
		return nil, err
	}
	options.Logger = quiet
	w, err := worker.New(jobs.NewClient(c, nil), "bench", h, options)
	if err != nil {
		return nil, err
	}
	workCtx, stop := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- w.Run(workCtx) }()
	spec.Name, spec.Pool = "bench", "bench"
	f := &feeding{address: server.Address(), temporal: c, client: jobs.NewClient(c, nil), output: output}
	if f.run, err = f.client.Start(ctx, spec, nil); err != nil {
		stop()
		return nil, err
	}
	f.stop = func() error {
		defer server.Stop()
		defer c.Close()
		stop()
		return <-worked
	}
	return f, nil
}

// feed returns a client of the feed's own.
func feed[T any](f *feeding) *jobs.Feed[T, T] {
	return jobs.NewFeed[T, T](f.client, "bench", jobs.FeedOptions{})
}

// events counts those of the job and of its legs.
func (f *feeding) events(ctx context.Context, legs int) (int, error) {
	events, err := countEvents(ctx, f.temporal, "bench")
	for leg := 1; leg <= legs && err == nil; leg++ {
		var n int
		n, err = countEvents(ctx, f.temporal, wire.LegID("bench", leg))
		events += n
	}
	return events, err
}

// end closes the feed, and notes how many events it has taken.
func (f *feeding) end(figure time.Duration, note string) error {
	ctx := context.Background()
	closing := feed[int](f)
	defer closing.Release()
	if err := closing.Close(ctx); err != nil {
		return err
	}
	done, err := f.run.Wait(ctx)
	if err != nil {
		return err
	}
	events, err := f.events(ctx, done.Legs)
	if err != nil {
		return err
	}
	note += fmt.Sprintf("; %d items in %d batches and %d legs, %.2f events an item", done.OK, done.Batches, done.Legs, float64(events)/float64(max(1, done.OK)))
	if err := f.stop(); err != nil {
		return err
	}
	return report(f.output, figure, note)
}

// quantiles returns the median and the 99th percentile of times.
func quantiles(times []time.Duration) (p50, p99 time.Duration) {
	slices.Sort(times)
	return times[len(times)/2], times[len(times)*99/100]
}

// timed calls fn so many times.
func timed(n int, fn func(i int) error) ([]time.Duration, error) {
	var all []time.Duration
	for i := range n {
		began := time.Now()
		if err := fn(i); err != nil {
			return nil, err
		}
		all = append(all, time.Since(began))
	}
	return all, nil
}

func echo(_ context.Context, n int) (int, error) { return n, nil }

// feedCalls compares calls of one item, one after the other, with a bare update of a workflow that runs one empty
// activity, and with calls through a gateway, in turn on the same server.
func feedCalls(args []string, calls int) error {
	f, err := startFeeding(args, worker.Each(echo), worker.Options{}, job.Spec{})
	if err != nil {
		return err
	}
	ctx := context.Background()
	w := sdkworker.New(f.temporal, "bare", sdkworker.Options{})
	w.RegisterWorkflow(bareUpdates)
	w.RegisterActivity(empty)
	if err := w.Start(); err != nil {
		return err
	}
	defer w.Stop()
	bare, err := f.temporal.ExecuteWorkflow(ctx, sdkclient.StartWorkflowOptions{ID: "bare", TaskQueue: "bare"}, bareUpdates)
	if err != nil {
		return err
	}
	caller := feed[int](f)
	defer caller.Release()
	call := func(i int) error {
		_, err := caller.Call(ctx, i)
		return err
	}
	update := func(int) error {
		h, err := f.temporal.UpdateWorkflow(ctx, sdkclient.UpdateWorkflowOptions{WorkflowID: bare.GetID(), UpdateName: "do", WaitForStage: sdkclient.WorkflowUpdateStageCompleted})
		if err != nil {
			return err
		}
		return h.Get(ctx, nil)
	}
	through, end, err := throughGateway(f)
	if err != nil {
		return err
	}
	times, err := inTurn(calls, call, update, through)
	end()
	if err != nil {
		return err
	}
	p50, p99 := quantiles(times[0])
	bare50, bare99 := quantiles(times[1])
	gateway50, _ := quantiles(times[2])
	note := fmt.Sprintf("p99 %v; bare update with an activity: p50 %v, p99 %v; ratios %.2f and %.2f; through the gateway: p50 %v, ratio %.2f",
		brief(p99), brief(bare50), brief(bare99), float64(p50)/float64(bare50), float64(p99)/float64(bare99), brief(gateway50), float64(gateway50)/float64(bare50))
	return f.end(p50, note)
}

// bareUpdates returns a workflow whose updates run an empty activity each.
func bareUpdates(ctx workflow.Context) error {
	err := workflow.SetUpdateHandler(ctx, "do", func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		return workflow.ExecuteActivity(ctx, empty).Get(ctx, nil)
	})
	if err != nil {
		return err
	}
	return workflow.Await(ctx, func() bool { return false })
}

// feedCallers compares 64 callers of one item each with one caller of lists of 64.
func feedCallers(args []string, items int) error {
	f, err := startFeeding(args, worker.Each(echo), worker.Options{}, job.Spec{})
	if err != nil {
		return err
	}
	ctx := context.Background()
	client := feed[int](f)
	defer client.Release()
	if _, err := client.Call(ctx, 0); err != nil {
		return err
	}
	const callers = 64
	began := time.Now()
	if err := callAtOnce(ctx, client, callers, items); err != nil {
		return err
	}
	one := time.Since(began)
	apart, err := callApart(f.address, 8, callers/8, items)
	if err != nil {
		return err
	}
	began = time.Now()
	list := make([]json.RawMessage, callers)
	for i := range list {
		list[i] = json.RawMessage("1")
	}
	asked := bareAsker{f: f}
	for range items / callers {
		if err := asked.call(ctx, list); err != nil {
			return err
		}
	}
	lists := time.Since(began)
	note := fmt.Sprintf("%.0f items a second; one caller of lists of 64: %.0f, ratio %.2f; 8 processes of 8 callers: %.0f, %.2f of one process",
		float64(items)/one.Seconds(), float64(items)/lists.Seconds(), lists.Seconds()/one.Seconds(), float64(items)/apart.Seconds(), one.Seconds()/apart.Seconds())
	return f.end(one, note)
}

// bareAsker exchanges with a feed's legs without the client's machinery.
type bareAsker struct {
	f    *feeding
	leg  int
	sent int
}

// call puts a list and waits for its results.
func (a *bareAsker) call(ctx context.Context, items []json.RawMessage) error {
	x := wire.Exchange{Client: "lists", Items: items, Want: true, Wait: wire.MaxExchangeWait}
	for left := len(items); left > 0; {
		a.sent++
		var got wire.Exchanged
		h, err := a.f.temporal.UpdateWorkflow(ctx, sdkclient.UpdateWorkflowOptions{
			WorkflowID: wire.LegID("bench", max(1, a.leg)), UpdateID: fmt.Sprint("lists-", a.sent), UpdateName: wire.UpdateExchange, Args: []any{x},
			WaitForStage: sdkclient.WorkflowUpdateStageCompleted,
		})
		if err == nil {
			err = h.Get(ctx, &got)
		}
		switch {
		case err == nil:
		case len(x.Items) > 0 && (strings.Contains(err.Error(), "takes no more items") || strings.Contains(err.Error(), "already completed")):
			a.leg = max(1, a.leg) + 1
			continue
		case strings.Contains(err.Error(), "ask again"):
			continue
		default:
			return err
		}
		left -= len(got.Results)
		x.Items = nil
	}
	return nil
}

// feedStream streams items of 100 bytes through a feed.
func feedStream(args []string, items int) error {
	handle := func(_ context.Context, s string) (string, error) { return s, nil }
	f, err := startFeeding(args, worker.Each(handle), worker.Options{}, job.Spec{Feed: &job.Feed{Capacity: 20_000}})
	if err != nil {
		return err
	}
	client := feed[string](f)
	defer client.Release()
	text := strings.Repeat("x", 98)
	sequence := func(yield func(string) bool) {
		for range items {
			if !yield(text) {
				return
			}
		}
	}
	began := time.Now()
	n := 0
	var early int64 // bytes in memory after a tenth of the items
	for _, err := range client.Stream(context.Background(), sequence, jobs.StreamOptions{}) {
		if err != nil {
			return err
		}
		if n++; n == items/10 {
			if early, err = resident(); err != nil {
				return err
			}
		}
	}
	took := time.Since(began)
	late, err := resident()
	if err != nil {
		return err
	}
	return f.end(took, fmt.Sprintf("%.0f items a second; resident after a tenth of the items %d MB, at the end %d MB", float64(n)/took.Seconds(), early>>20, late>>20))
}

// resident returns how much memory this process has, in bytes.
func resident() (int64, error) {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(data), &size, &pages); err != nil {
		return 0, err
	}
	return pages * int64(os.Getpagesize()), nil
}

// feedLists has one caller put lists of 100 items of 100 bytes, and wait for their results.
func feedLists(args []string, items int) error {
	handle := func(_ context.Context, s string) (string, error) { return s, nil }
	f, err := startFeeding(args, worker.Each(handle), worker.Options{}, job.Spec{})
	if err != nil {
		return err
	}
	client := feed[string](f)
	defer client.Release()
	if _, err := client.Call(context.Background(), "opens the first leg"); err != nil {
		return err
	}
	list := make([]json.RawMessage, 100)
	for i := range list {
		list[i] = json.RawMessage(strconv.Quote(strings.Repeat("x", 98)))
	}
	asked := bareAsker{f: f}
	began := time.Now()
	for range items / len(list) {
		if err := asked.call(context.Background(), list); err != nil {
			return err
		}
	}
	took := time.Since(began)
	return f.end(took, fmt.Sprintf("%.0f items a second", float64(items)/took.Seconds()))
}

// feedBatching has 64 callers at a slot whose handler takes 20 ms a call, whatever its size.
func feedBatching(args []string, items int) error {
	var mu sync.Mutex
	calls, sum := 0, 0
	handle := func(_ context.Context, all []int) ([]int, error) {
		time.Sleep(20 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		calls++
		sum += len(all)
		return all, nil
	}
	f, err := startFeeding(args, worker.Batch(handle), worker.Options{Slots: 1, CallItems: 1000}, job.Spec{})
	if err != nil {
		return err
	}
	client := feed[int](f)
	defer client.Release()
	const callers = 64
	began := time.Now()
	if err := callAtOnce(context.Background(), client, callers, items); err != nil {
		return err
	}
	took := time.Since(began)
	ideal := 21 * time.Millisecond * time.Duration(items/callers)
	note := fmt.Sprintf("calls of %.1f items on average; %.2f of 64 items in 21 ms", float64(sum)/float64(max(1, calls)), ideal.Seconds()/took.Seconds())
	return f.end(took, note)
}

func (b *bench) feedRows() []row {
	r := func(name, limit, role string, items int) row {
		return row{
			name: name, limit: limit, before: b.fresh, once: true,
			stint:  func() *exec.Cmd { return b.role(role, b.data("ten", 10, 100), fmt.Sprint(items)) },
			figure: func() (time.Duration, error) { return b.figure(role) },
			note:   func() string { return b.read(role, ".note") },
		}
	}
	return []row{
		r("feed, call of one item", "≤ 1.2 and 1.5 × an update, 1.3 through the gateway", "feed-calls", b.items(1000)),
		r("feed, 64 callers of one item", "≥ 3,000/s, 0.7, 0.7", "feed-callers", b.items(64_000)),
		r("feed, stream of 100-byte items", "≥ 20,000/s, flat memory", "feed-stream", b.items(1_000_000)),
		r("feed, lists of 100 items", "≤ 0.12 events an item", "feed-lists", b.items(100_000)),
		r("feed, 20 ms a call, 64 callers", "≥ 30 items, 0.8", "feed-batching", b.items(12_800)),
	}
}

// feedRole runs a role of a feed. args are the input, which it does not use, the output, the state and the number of
// items.
func feedRole(name string, args []string) error {
	items, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	switch name {
	case "feed-calls":
		return feedCalls(args, items)
	case "feed-stages":
		return feedStages(args, items)
	case "feed-callers":
		return feedCallers(args, items)
	case "feed-stream":
		return feedStream(args, items)
	case "feed-lists":
		return feedLists(args, items)
	}
	return feedBatching(args, items)
}
