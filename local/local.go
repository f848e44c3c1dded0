package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/worker"
)

// DefaultExpiry is the expiry of a Spec that has none: the worker is in the same process.
const DefaultExpiry = 5 * time.Second

// Options configure a run. The zero value of a field means its default.
type Options struct {
	// State is a directory for the server's state and the job's parts. It is made if it is missing,
	// and stays: after an interruption or the death of the process, Run with the same State and
	// Spec.Name continues where the job was. One process at a time can use it. Default: the server
	// keeps its state in memory, and the parts lie in a temporary directory, which is removed at the
	// end; nothing can continue then.
	State string
	// Fresh starts the job anew even if an earlier one of its name could be continued.
	Fresh bool
	// Worker are the options of the worker: its slots, its hooks, the standard input for the input
	// "-", and so on. What the Spec names is always allowed: its inputs for reading, the directories of
	// its output, errors and report, and State, for reading and writing. Allow adds to that.
	Worker worker.Options
	// Pools are the workers of a pipeline (Spec.Stages), by the names of its pools: exactly those that its stages and
	// hooks name. On the server the names of the pools begin with the job's: "JOB--POOL". Default: none.
	Pools map[string]Pool
	// Results gets the results, one line an item in the order of the items, once the job has completed, or while it
	// runs if it reads the standard input (see job.Spec.Streams). It is used if Spec.Output is empty, and required
	// then.
	Results io.Writer
	// Progress is called about every ProgressInterval with the job's report. Default: none.
	Progress func(job.Report)
	// ProgressInterval is the time between calls of Progress. Default 1 s.
	ProgressInterval time.Duration
	// Note gets messages for people, such as that an earlier job continues. Like Progress, it may be called by another
	// goroutine than that of Run, but not after Run has returned. Default: Worker.Logger logs them.
	Note func(text string)
	// Ready is called once, before the job starts, with the addresses of server, web UI and metrics.
	// Default: none.
	Ready func(Addresses)
	// UI serves stint's page, and Temporal's web UI, for as long as the run takes, at UIPort.
	UI bool
	// UIPort is the port of the web UI, 1 to 65535. Default: a free one.
	UIPort int
	// Program is the name of the program in commands that the page shows. Default: "stint".
	Program string
	// Logger gets the log of the server and Temporal's client; the worker has Worker.Logger.
	// Default: nothing is logged.
	Logger *slog.Logger
	// Abort ends Run when it is closed, without stopping the job: the worker drains, within
	// Worker.Drain, and Run returns an error. With State, the next Run continues. Default: never.
	Abort <-chan struct{}
}

// Addresses are the addresses of the parts of a run.
type Addresses struct {
	Temporal string // HOST:PORT of the server
	UI       string // URL of the web UI; empty if there is none
	Page     string // URL of stint's page; empty if there is none

	// Metrics are HOST:PORT of the workers' metrics: one, or for a pipeline one for each pool; none without
	// worker.Options.Metrics.
	Metrics []string
}

func (o Options) withDefaults() Options {
	o.ProgressInterval = cmp.Or(o.ProgressInterval, time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Worker.Logger = cmp.Or(o.Worker.Logger, slog.Default())
	if o.Note == nil {
		o.Note = func(text string) { o.Worker.Logger.Info(text) }
	}
	return o
}

// newRun returns a run with these options, with their defaults.
func newRun(ctx context.Context, o Options) (*run, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	o = o.withDefaults()
	if o.ProgressInterval < 0 {
		problem := fmt.Sprintf("%v: use a duration above 0", o.ProgressInterval)
		return nil, fmt.Errorf("local options: %w", &job.FieldError{Field: "ProgressInterval", Problem: problem})
	}
	return &run{o: o, ctx: ctx, state: o.State}, nil
}

// Run runs a job to its end and returns its final report. It starts a Temporal server and a worker with the handler in
// this process, and ends both before it returns. A pipeline has a worker for each of [Options].Pools; h is the handler
// of pools without their own, and may be the zero Handler if all have one.
//
// The spec needs Input, and Output unless Options.Results is set. Relative paths start from the working directory.
// Defaults: Pool is the name, Expiry is [DefaultExpiry], Store lies below Options.State; Name can be left out only
// without Options.State.
//
// With Options.State, Run continues an earlier job of the name that was interrupted, stopped or
// has failed, and waits for one that is stopping. One that had completed before is run afresh.
//
// If ctx ends, the job is stopped: running calls have Spec.Grace to end (120 s by default), then they
// are cut off, and Run returns the report of the stopped job and an error that wraps ctx's cause.
//
// A job that fails gives its report and a *jobs.FailedError. A job that its handler or another process stops gives a
// report with the state stopped, and no error. Failed items are not an error either: the report counts them.
func Run(ctx context.Context, spec job.Spec, h worker.Handler, o Options) (_ job.Report, err error) {
	r, err := newRun(ctx, o)
	if err != nil {
		return job.Report{}, err
	}
	defer r.access.Close()
	r.begin = r.startOrContinue
	if o.State == "" {
		if r.state, err = os.MkdirTemp("", "stint-*"); err != nil {
			return job.Report{}, fmt.Errorf("making a directory for the job's parts: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(r.state)) }()
	}
	if err := r.complete(spec); err != nil {
		return job.Report{}, err
	}
	if err := r.checkPools(h); err != nil {
		return job.Report{}, err
	}
	return r.all(h)
}

// all runs the job until it has ended, or is aborted.
func (r *run) all(h worker.Handler) (_ job.Report, err error) {
	hard, abort := context.WithCancel(context.WithoutCancel(r.ctx))
	defer abort()
	ended := make(chan struct{})
	aborted := trap.Go("waiting for an abort", func() error {
		select {
		case <-r.o.Abort:
			abort()
		case <-ended:
		}
		return nil
	})
	defer func() {
		close(ended)
		if defect := <-aborted; err == nil {
			err = defect
		}
	}()
	return r.embed(hard, h)
}
