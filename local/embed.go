package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-run/stint/internal/base/backoff"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/temporal/devserver"
	"github.com/stint-run/stint/internal/temporal/search"
	"github.com/stint-run/stint/internal/web/page"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	sdkclient "go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"google.golang.org/grpc"
)

// run is one execution of Run.
type run struct {
	o     Options
	spec  job.Spec
	state string
	// access opens what the run itself looks at; there are no roots.
	access store.Access
	// ownStore is whether the job's store is a directory of this package below the state.
	ownStore bool
	// ctx is the caller's: its end stops the job. Everything else goes by a context that only Abort
	// ends.
	ctx context.Context
	// begin starts the job, or continues it.
	begin func(context.Context, *jobs.Client) (*jobs.Run, error)
	// named is the job of the state that is continued, with its own spec; empty: the spec is the caller's.
	named string
	// tookOver is whether the job of this name was running when this process took the state over.
	tookOver bool
	// replaces is the run that takes the place of all others in the job's own store; empty: it continues one, or has
	// not begun.
	replaces string
	// stdin is the standard input, for the run that is chosen; nil if there is none.
	stdin *inputs.Reserved
	// printed is the ordinal of the first item whose result was not printed while the job ran.
	printed int64
}

// embed runs the job with a server and a worker that it starts and ends.
func (r *run) embed(ctx context.Context, h worker.Handler) (job.Report, error) {
	options := devserver.Options{
		SearchAttributes: search.Types(), NoSystemWorker: true, Logger: r.o.Logger, Note: r.o.Note, For: cmp.Or(r.named, r.spec.Name),
	}
	looks, err := page.New(page.Options{
		Loopback: true, Access: &r.access, Temporal: "/namespaces/" + devserver.DefaultNamespace, Program: r.o.Program, Log: r.o.Logger,
	})
	if err != nil {
		return job.Report{}, err
	}
	defer looks.Close()
	if r.o.UI {
		options.UIPort = cmp.Or(r.o.UIPort, devserver.AnyPort)
		options.Page, options.PagePath = looks, page.Path
	}
	if r.o.State != "" {
		options.Dir = devserver.StateDir(r.state)
	}
	server, err := devserver.Start(ctx, options)
	if err != nil {
		return job.Report{}, err
	}
	defer server.Stop()
	c, err := sdkclient.DialContext(ctx, sdkclient.Options{
		HostPort: server.Address(), Namespace: server.Namespace(), Logger: sdklog.NewStructuredLogger(r.o.Logger),
		// Compression would only cost processor time: the server is in this process.
		ConnectionOptions: sdkclient.ConnectionOptions{GrpcCompression: &sdkclient.GrpcCompressionNone{}, DialOptions: []grpc.DialOption{worker.DialOption()}},
	})
	if err != nil {
		return job.Report{}, fmt.Errorf("connecting to the embedded server: %w", err)
	}
	defer c.Close()
	client := jobs.NewClient(c, &jobs.ClientOptions{Namespace: server.Namespace()})
	looks.Use(client)
	if err := r.lookUp(ctx, client); err != nil {
		return job.Report{}, err
	}
	ws, err := r.makeWorkers(client, h)
	if err != nil {
		return job.Report{}, err
	}
	defer ws.close()
	if r.o.Ready != nil {
		addresses := Addresses{Temporal: server.Address(), UI: server.UIURL(), Metrics: ws.metrics()}
		if addresses.UI != "" {
			addresses.Page = addresses.UI + page.Path
		}
		r.o.Ready(addresses)
	}
	if err := r.takeOver(ctx, c, client, server.Namespace()); err != nil {
		return job.Report{}, err
	}
	report, err := r.beside(ctx, ws, client)
	r.removeLeft()
	if err == nil && report.State == job.Completed && r.spec.Output == "" {
		err = r.print(ctx, report)
	}
	if err == nil {
		r.tidy(ctx, c, server.Namespace(), report)
	}
	return report, err
}

// workers are those of a run, one for each pool.
type workers []*worker.Worker

func (r *run) makeWorkers(client *jobs.Client, h worker.Handler) (ws workers, err error) {
	workers, err := r.poolWorkers(h)
	if err != nil {
		return nil, err
	}
	for _, member := range workers {
		w, err := worker.New(client, member.pool, member.handler, member.options)
		if err != nil {
			ws.close()
			return nil, err
		}
		ws = append(ws, w)
	}
	return ws, nil
}

func (ws workers) close() {
	for _, w := range ws {
		w.Close()
	}
}

// metrics returns the addresses of the workers' endpoints.
func (ws workers) metrics() (all []string) {
	for _, w := range ws {
		if address := w.MetricsAddress(); address != "" {
			all = append(all, address)
		}
	}
	return all
}

// run runs all of them until ctx, or one of them, ends.
func (ws workers) run(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	running := make([]<-chan error, len(ws))
	for i, w := range ws {
		running[i] = trap.Go("running a worker", func() error {
			defer end()
			return w.Run(ctx)
		})
	}
	errs := make([]error, len(ws))
	for i := range running {
		errs[i] = <-running[i]
	}
	return errors.Join(errs...)
}

// beside runs the workers and the job at the same time, until the job has ended.
func (r *run) beside(ctx context.Context, ws workers, client *jobs.Client) (job.Report, error) {
	workCtx, stopWork := context.WithCancel(ctx)
	defer stopWork()
	jobCtx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	worked := trap.Go("running the workers", func() error {
		defer giveUp() // without its workers the job would wait for ever
		return ws.run(workCtx)
	})
	report, err := r.job(jobCtx, client)
	stopWork()
	if workErr := <-worked; workErr != nil {
		return job.Report{}, workErr
	}
	return report, err
}

// job starts the job, or continues it, and follows it to its end.
func (r *run) job(ctx context.Context, client *jobs.Client) (job.Report, error) {
	running, err := r.begin(ctx, client)
	if err != nil {
		return job.Report{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watched := make(chan struct{})
	var defect error
	trap.Watched("waiting for the end of the context", func(err error) {
		defect = err
		cancel() // nobody else would stop the job
		close(watched)
	}, func() {
		r.stopWithContext(ctx, running)
		close(watched)
	})
	printed := r.startPrinting(ctx, running)
	report, err := r.follow(ctx, running)
	cancel()
	if <-watched; defect != nil {
		return report, defect
	}
	if printErr := <-printed; printErr != nil {
		return report, printErr
	}
	if err == nil && report.State == job.Stopped && r.ctx.Err() != nil {
		err = fmt.Errorf("job %s is stopped: %w", r.spec.Name, context.Cause(r.ctx))
	}
	return report, err
}

// stopWithContext stops the job when the caller's context ends.
func (r *run) stopWithContext(ctx context.Context, running *jobs.Run) {
	select {
	case <-ctx.Done():
		return
	case <-r.ctx.Done():
	}
	if err := running.Stop(ctx, job.Stop{Reason: context.Cause(r.ctx).Error()}); err != nil && ctx.Err() == nil {
		r.o.Note(err.Error())
	}
}

func (r *run) follow(ctx context.Context, running *jobs.Run) (job.Report, error) {
	if r.o.Progress == nil {
		return running.Wait(ctx)
	}
	return running.Follow(ctx, r.o.ProgressInterval, r.o.Progress)
}

// startPrinting prints results while the job runs, until ctx ends, if its input still comes. The channel gets the
// error, which stops the job, or nil.
func (r *run) startPrinting(ctx context.Context, running *jobs.Run) <-chan error {
	return trap.Go("printing results", func() error {
		if !r.spec.Streams() {
			return nil
		}
		err := r.printWhile(ctx, running)
		if err != nil && ctx.Err() == nil {
			if stopErr := running.Stop(ctx, job.Stop{Reason: err.Error()}); stopErr != nil {
				r.o.Note(stopErr.Error())
			}
		}
		return err
	})
}

// printEvery is the longest wait between two reads of what has been committed.
const printEvery = 500 * time.Millisecond

func (r *run) printWhile(ctx context.Context, running *jobs.Run) error {
	var follower outputs.Follower
	to := &resultsWriter{w: r.o.Results}
	every := min(r.spec.WithDefaults().Files.Flush, printEvery)
	for backoff.Wait(every, ctx.Done()) {
		report, err := running.Report(ctx)
		if err != nil || !outputs.Follows(report) {
			continue // who follows the job deals with it
		}
		err = follower.Copy(context.WithoutCancel(ctx), &r.access, report, to)
		r.printed = follower.Next()
		if err != nil {
			err = cmp.Or(to.err, err)
			return fmt.Errorf("printing the results: %w; the job is stopped, and the same command continues it once it has read its whole input", err)
		}
	}
	return nil
}
