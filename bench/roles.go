package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	gojson "github.com/goccy/go-json"
	"github.com/stint-run/stint/internal/base/collector"
	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/temporal/devserver"
	private "github.com/stint-run/stint/internal/temporal/embedded"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	"go.temporal.io/api/enums/v1"
	sdkclient "go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// record is an item of the data.
type record struct {
	ID     int    `json:"id"`
	Name   string `json:"name"`
	Amount int    `json:"amount"`
	Note   string `json:"note"`
}

// upper returns the handler that is measured, bare and in stint.
func upper(_ context.Context, r record) (record, error) {
	r.Name = strings.ToUpper(r.Name)
	return r, nil
}

const nap = time.Millisecond

func sleep(_ context.Context, r record) (record, error) {
	time.Sleep(nap)
	return r, nil
}

func role(name string, args []string) error {
	switch name {
	case "bare-go":
		return bare(args[0], args[1], runtime.NumCPU(), blockBytes, encodingJSON, upper)
	case "bare-go-json":
		return bare(args[0], args[1], runtime.NumCPU(), blockBytes, goJSON, upper)
	case "bare-sleep":
		return bare(args[0], args[1], 64, blockBytes, encodingJSON, sleep)
	case "bare-http":
		return bareHTTP(args[0], args[1], args[3])
	case "bare-each":
		return bareEach(args[0])
	case "stint-go":
		return embedded(args, worker.Each(upper), worker.Options{}, job.Spec{}, true)
	case "stint-batches":
		return embedded(args, worker.Each(upper), worker.Options{}, job.Spec{BatchItems: 1000}, true)
	case "stint-sleep":
		return embedded(args, worker.Each(sleep), worker.Options{Slots: 64}, job.Spec{Window: 128}, false)
	case "stint-empty":
		return embedded(args, worker.Each(upper), worker.Options{}, job.Spec{BatchItems: 1}, false)
	case "stint-waiting", "auto-waiting":
		return stintWaiting(args)
	case "serve-waiting":
		return serveWaiting(args)
	case "bare-waiting":
		return bareWaiting(args)
	case "temporal-empty":
		return emptyActivities(args)
	case "stint-server":
		return stintOnServer(args[0], args[1], args[2], args[3])
	case "temporal-server":
		return bareOnServer(args[0], args[3])
	case "two-workers":
		return twoWorkers(args[0], args[1], args[2], args[3])
	case "spin-worker":
		return spinWorker(args[0], args[1])
	case "feed-calls", "feed-stages", "feed-callers", "feed-stream", "feed-lists", "feed-batching":
		return feedRole(name, args)
	case "feed-client":
		return feedClient(args)
	case "first-result":
		return firstResult(args)
	case "loop":
		return loopTicks(args)
	case "stint-serve":
		return stintServe(args)
	case "bare-serve":
		return bareServe(args)
	case "timers":
		return scoped(args, 20_000, false)
	case "timers-isolated":
		return scoped(args, 1000, true)
	case "round":
		return roundTime(args[1])
	case "plan-files":
		return manySources(args[0], args[1], args[2], false)
	case "resume-files":
		return manySources(args[0], args[1], args[2], true)
	case "restart":
		return restart(args)
	case "server":
		return serverRole(args[0], args[1])
	case "worker":
		return workerRole(args[0], args[1])
	case "rated":
		return rated(args)
	case "http-worker":
		return httpWorker(args[0], args[1])
	case "stops-pushed":
		return stops(args, stopsPushed())
	case "stops-heartbeats":
		return stops(args, stopsHeartbeats())
	case "stops-paced":
		return stops(args, stopsPaced())
	case "kills":
		return kills(args, limits.DefaultBackoff)
	case "kills-at-once":
		return kills(args, time.Millisecond)
	}
	return fmt.Errorf("no role %q", name)
}

// blockBytes is how much of the input a goroutine of a bare loop gets at a time, for handlers that take no time.
const blockBytes = 256 << 10

// codec is the JSON library of a bare loop.
type codec struct {
	unmarshal func([]byte, any) error
	encoder   func(io.Writer) encoder
}

type encoder interface {
	SetEscapeHTML(on bool)
	Encode(v any) error
}

// encodingJSON is what one would take; goJSON is what stint's own handlers have (see package internal/base/codec).
var (
	encodingJSON = codec{json.Unmarshal, func(w io.Writer) encoder { return json.NewEncoder(w) }}
	goJSON       = codec{gojson.Unmarshal, func(w io.Writer) encoder { return gojson.NewEncoder(w) }}
)

// bare returns the loop that one would write by hand: one goroutine reads blocks of lines, of so many bytes and
// the rest of the line, some decode, handle and encode, and the results are written in order.
func bare(input, output string, goroutines, size int, library codec, fn func(context.Context, record) (record, error)) error {
	in, err := os.Open(input)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(output)
	if err != nil {
		return err
	}
	type block struct {
		lines []byte
		done  chan []byte
	}
	todo, ordered := make(chan block, goroutines), make(chan block, 4*goroutines)
	var workers sync.WaitGroup
	for range goroutines {
		workers.Go(func() {
			for b := range todo {
				b.done <- handle(b.lines, library, fn)
			}
		})
	}
	go func() {
		defer close(ordered)
		defer close(todo)
		r := bufio.NewReaderSize(in, 1<<20)
		for {
			lines := make([]byte, size)
			n, err := io.ReadFull(r, lines)
			rest, _ := r.ReadBytes('\n') // to the end of the line, if there is more
			b := block{append(lines[:n], rest...), make(chan []byte, 1)}
			ordered <- b
			todo <- b
			if err != nil {
				return
			}
		}
	}()
	w := bufio.NewWriterSize(out, 1<<20)
	for b := range ordered {
		if _, err := w.Write(<-b.done); err != nil {
			return err
		}
	}
	workers.Wait()
	if err := w.Flush(); err != nil {
		return err
	}
	return out.Close()
}

func handle(lines []byte, library codec, fn func(context.Context, record) (record, error)) []byte {
	var buf bytes.Buffer
	buf.Grow(len(lines))
	enc := library.encoder(&buf)
	enc.SetEscapeHTML(false)
	for line := range bytes.Lines(lines) {
		var r record
		if err := library.unmarshal(line, &r); err != nil {
			panic(err) // the data is the bench's own
		}
		r, _ = fn(context.Background(), r)
		if err := enc.Encode(r); err != nil {
			panic(err)
		}
	}
	return buf.Bytes()
}

// embedded runs a job with server, worker and starter in this process, as `stint run` does and every program of
// starter.Main.
func embedded(args []string, h worker.Handler, options worker.Options, spec job.Spec, histories bool) error {
	collector.PaceServer()
	ctx := context.Background()
	input, output, state := args[0], args[1], args[2]
	quiet := slog.New(slog.DiscardHandler)
	server, c, err := serve(ctx, state, quiet)
	if err != nil {
		return err
	}
	defer server.Stop()
	defer c.Close()
	options.Logger = quiet
	private.Alone(&options, nil)
	w, err := worker.New(jobs.NewClient(c, nil), "bench", h, options)
	if err != nil {
		return err
	}
	workCtx, stop := context.WithCancel(ctx)
	defer stop()
	worked := make(chan error, 1)
	go func() { worked <- w.Run(workCtx) }()
	spec.Files = &job.Files{Input: []string{input}}
	spec.Name, spec.Pool, spec.Output, spec.Store = "bench", "bench", output, state+"/store"
	run, err := jobs.NewClient(c, nil).Start(ctx, spec, &jobs.StartOptions{TaskTimeout: 2 * time.Second})
	if err != nil {
		return err
	}
	report, err := run.Wait(ctx)
	stop()
	if workErr := <-worked; err == nil {
		err = workErr
	}
	if err != nil || !histories {
		return err
	}
	return writeHistories(ctx, c, report, output+".histories")
}

func serve(ctx context.Context, state string, logger *slog.Logger) (*devserver.Server, sdkclient.Client, error) {
	server, err := devserver.Start(ctx, devserver.Options{Dir: state + "/temporal", Logger: logger})
	if err != nil {
		return nil, nil, err
	}
	c, err := sdkclient.Dial(sdkclient.Options{HostPort: server.Address(), Namespace: server.Namespace(), Logger: sdklog.NewStructuredLogger(logger)})
	if err != nil {
		server.Stop()
		return nil, nil, err
	}
	return server, c, nil
}

// writeHistories counts the events of all of a job's histories: of the job itself and of its legs.
func writeHistories(ctx context.Context, c sdkclient.Client, report job.Report, path string) error {
	events, err := countEvents(ctx, c, report.Job)
	if err != nil {
		return err
	}
	for leg := 1; leg < report.Legs; leg++ {
		n, err := countEvents(ctx, c, wire.LegID(report.Job, leg))
		if err != nil {
			return err
		}
		events += n
	}
	text := fmt.Sprintf("%d batches, %d events", report.Batches, events)
	if report.Batches >= manyBatches {
		text += fmt.Sprintf(": %.2f a batch", float64(events)/float64(report.Batches))
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// manyBatches are enough for what a job and its legs cost by themselves not to count.
const manyBatches = 1000

func countEvents(ctx context.Context, c sdkclient.Client, id string) (int, error) {
	n := 0
	events := c.GetWorkflowHistory(ctx, id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		if _, err := events.Next(); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// emptyActivities returns a bare workflow that runs empty activities, a window at a time in flight.
func emptyActivities(args []string) error {
	ctx := context.Background()
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	quiet := slog.New(slog.DiscardHandler)
	server, c, err := serve(ctx, args[2], quiet)
	if err != nil {
		return err
	}
	defer server.Stop()
	defer c.Close()
	return runBare(ctx, c, n, runtime.NumCPU())
}

// runBare runs n empty activities, so many at once, as a plain workflow does.
func runBare(ctx context.Context, c sdkclient.Client, n, slots int) error {
	w := sdkworker.New(c, "bare", sdkworker.Options{MaxConcurrentActivityExecutionSize: slots})
	w.RegisterWorkflow(bareWorkflow)
	w.RegisterActivity(empty)
	if err := w.Start(); err != nil {
		return err
	}
	defer w.Stop()
	run, err := c.ExecuteWorkflow(ctx, sdkclient.StartWorkflowOptions{TaskQueue: "bare"}, bareWorkflow, n)
	if err != nil {
		return err
	}
	return run.Get(ctx, nil)
}

func empty(context.Context) error { return nil }

func bareWorkflow(ctx workflow.Context, n int) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	selector := workflow.NewSelector(ctx)
	flying := 0
	for started := 0; started < n || flying > 0; {
		for ; started < n && flying < limits.LeastAutoWindow; started++ {
			flying++
			selector.AddFuture(workflow.ExecuteActivity(ctx, empty), func(workflow.Future) { flying-- })
		}
		selector.Select(ctx)
	}
	return nil
}
