package starter

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/devserver"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/worker"
	sdkclient "go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
)

const (
	// runExpiry is the default expiry of `run`: its worker is in the same process.
	runExpiry = 5 * time.Second
	// runTaskTimeout is how long a workflow task that a killed run held stays held.
	runTaskTimeout = 2 * time.Second
	stdoutErrors   = "stint.errors.jsonl"
	logName        = "stint.log"
)

type runOptions struct {
	job    jobOptions
	worker workerOptions
	state  string
	uiPort int
	json   bool
	quiet  bool

	verbose bool
}

func newRun(p *Program) *cobra.Command {
	o := &runOptions{}
	cmd := &cobra.Command{
		Use:   "run [INPUT…]",
		Short: "Run a job in this process, with everything embedded",
		Long: `Runs a command over the items of the inputs (files, globs, directories, bucket URLs, - for stdin)
and writes the results, in input order, to --output or to stdout.

Temporal, a worker and the job run in this process; their state lies in --state. Interrupted or
killed, the same command goes on where it was; finished, it starts afresh.

Exit status: 0 every item ok, 1 failed, 2 wrong usage, 3 some items failed, 4 stopped and
resumable, 5 stopped with work still running, 130 ended by a second Ctrl-C.`,
		Example: `  stint run --exec 'tr a-z A-Z' big.jsonl -o out.jsonl
  stint run --exec 'jq -c .name' 'data/*.jsonl.gz' > names.txt`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, p, args) },
	}
	fs := cmd.Flags()
	o.job.addFlags(fs)
	fs.Lookup("expiry").DefValue = runExpiry.String()
	o.worker.addFlags(fs)
	fs.StringVar(&o.state, "state", defaultState, "`DIR` for Temporal's state and the job's parts")
	fs.IntVar(&o.uiPort, "ui-port", devserver.AnyPort, "port of the web UI (0: no web UI; default: a free one)")
	fs.Lookup("ui-port").DefValue = zeroDefault
	fs.BoolVar(&o.json, "json", false, "progress and final report as JSON lines on stderr")
	fs.BoolVarP(&o.quiet, "quiet", "q", false, "no progress, and no summary where every item is ok")
	fs.BoolVarP(&o.verbose, "verbose", "v", false, "log to stderr, not to "+logName+" in --state")
	return cmd
}

func (o *runOptions) run(cmd *cobra.Command, p *Program, args []string) error {
	spec, err := o.job.complete(cmd, args, p.Dir)
	if err != nil {
		return err
	}
	handler, err := o.worker.handler(p)
	if err != nil {
		return err
	}
	if !cmd.Flags().Changed("expiry") && spec.Expiry == job.DefaultExpiry {
		spec.Expiry = runExpiry
	}
	if err := checkPort("ui-port", o.uiPort); err != nil {
		return err
	}
	state := p.path(o.state)
	spec = o.named(spec, handler, p.Dir, state)
	if err := spec.WithDefaults().Validate(); err != nil {
		return usageError("%v", err)
	}
	if err := checkInputs(cmd.Context(), spec.Input); err != nil {
		return err
	}
	r := &running{o: o, p: p, spec: spec, state: state, show: newProgress(p.Stderr, p.Terminal, o.json)}
	r.show.silent = o.quiet
	return r.all(cmd.Context(), handler)
}

// named gives the job its name, pool and store. The name is a hash of what makes it this job and
// no other: tuning flags do not count. The pool is the job's own, so that batches of another job
// of the same state never meet this one's handler.
func (o *runOptions) named(spec job.Spec, handler worker.Handler, dir, state string) job.Spec {
	if spec.Name == "" {
		identity := slices.Concat([]string{dir}, spec.Input, []string{"\x00", spec.Output, handler.Name(), spec.Format})
		sum := sha256.Sum256([]byte(strings.Join(identity, "\x00")))
		spec.Name = "run-" + hex.EncodeToString(sum[:5])
	}
	if spec.Pool == "" {
		spec.Pool = spec.Name
	}
	if spec.Output == "" && spec.Errors == "" {
		spec.Errors = filepath.Join(dir, stdoutErrors)
	}
	if spec.Output == "" || !store.IsPrefix(spec.Output) {
		spec.Store = filepath.Join(state, "jobs", spec.Name)
	}
	return spec
}

// checkInputs refuses what is not there before anything is started.
func checkInputs(ctx context.Context, inputs []string) error {
	var access store.Access
	defer access.Close()
	for _, input := range inputs {
		if input == "-" {
			continue
		}
		if _, err := access.Expand(ctx, []string{input}); err != nil {
			return err
		}
	}
	return nil
}

// running is one execution of `run`.
type running struct {
	o     *runOptions
	p     *Program
	spec  job.Spec
	state string
	show  *progress
	began time.Time

	logger       *slog.Logger // of the server and of Temporal's SDK
	workerLogger *slog.Logger
}

// openLog has the server and the worker log to a file of this run: what a person should know
// comes from the job.
func (r *running) openLog() (closeLog func(), err error) {
	if r.o.verbose {
		r.logger, r.workerLogger = newLogger(r.p.Stderr, true), newWorkerLogger(r.p.Stderr)
		return func() {}, nil
	}
	if err := os.MkdirAll(r.state, 0o700); err != nil {
		return nil, fmt.Errorf("making the state directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(r.state, logName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	if info, err := f.Stat(); err == nil && info.Size() > maxLog {
		_ = f.Truncate(0) // it is only a log
	}
	r.logger, r.workerLogger = newLogger(f, false), newWorkerLogger(f)
	return func() { _ = f.Close() }, nil
}

// maxLog is the size in bytes from which the log of earlier runs is thrown away.
const maxLog = 10 << 20

func (r *running) all(ctx context.Context, handler worker.Handler) error {
	r.began = time.Now()
	closeLog, err := r.openLog()
	if err != nil {
		return err
	}
	defer closeLog()
	server, err := devserver.Start(ctx, devserver.Options{
		Dir: stateDir(r.state), UIPort: r.o.uiPort, Logger: r.logger,
	})
	if err != nil {
		return fmt.Errorf("starting the embedded server: %w", err)
	}
	defer server.Stop()
	c, err := sdkclient.DialContext(ctx, sdkclient.Options{
		HostPort: server.Address(), Namespace: server.Namespace(), Logger: sdklog.NewStructuredLogger(r.logger),
		ConnectionOptions: sdkclient.ConnectionOptions{GrpcCompression: compressionFor(server.Address())},
	})
	if err != nil {
		return fmt.Errorf("connecting to the embedded server: %w", err)
	}
	defer c.Close()
	if url := server.UIURL(); url != "" && !r.o.quiet && !r.o.json && r.p.Terminal {
		r.show.note("web UI: %s", url)
	}
	w, err := r.newWorker(c, handler)
	if err != nil {
		return err
	}
	defer w.Close()
	client := job.NewClient(c)
	if err := r.takeOver(ctx, client, server.Namespace()); err != nil {
		return err
	}
	workCtx, stopWork := context.WithCancel(ctx)
	defer stopWork()
	jobCtx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	worked := make(chan error, 1)
	go func() {
		err := w.Run(workCtx)
		giveUp() // without its worker the job would wait for ever
		worked <- err
	}()
	report, err := r.job(jobCtx, client)
	stopWork()
	if workErr := <-worked; workErr != nil {
		err = workErr
	}
	if err != nil {
		return err
	}
	return r.conclude(ctx, report)
}

// newWorker makes the worker and tells where its metrics are.
func (r *running) newWorker(c sdkclient.Client, handler worker.Handler) (*worker.Worker, error) {
	w, err := worker.New(c, r.spec.Pool, handler, r.workerOptions())
	if err != nil {
		return nil, err
	}
	if address := w.MetricsAddress(); address != "" {
		r.show.note(metricsNote, address)
	}
	return w, nil
}

func (r *running) workerOptions() worker.Options {
	options := r.o.worker.options
	options.Logger = r.workerLogger
	options.Stdin = r.p.Stdin
	options.Alone = true
	if len(options.Allow) == 0 {
		options.Allow = r.ownRoots()
	}
	return options
}

// ownRoots are the places that the job names, and the state: its worker reads and writes no others.
func (r *running) ownRoots() []string {
	roots := []string{r.state}
	for _, location := range slices.Concat(r.spec.Input, []string{r.spec.Output, r.spec.WithDefaults().Errors, r.spec.Report}) {
		switch {
		case location == "" || location == "-":
		case store.IsPrefix(location):
			roots = append(roots, location)
		default:
			roots = append(roots, parentOf(location))
		}
	}
	return roots
}

// parentOf is the directory or prefix that a location lies in, or, of a pattern, the last one
// before its wildcards.
func parentOf(location string) string {
	wildcards := "*?[{"
	if strings.Contains(location, "://") {
		wildcards = "*[{" // a question mark begins the driver's parameters
	}
	for {
		dir, _, err := store.Split(location)
		if err != nil || !strings.ContainsAny(dir, wildcards) {
			return dir
		}
		location = dir
	}
}

// job starts the job, or goes on with it, and follows it to its end.
func (r *running) job(ctx context.Context, client *job.Client) (job.Report, error) {
	run, err := r.startOrGoOn(ctx, client)
	if err != nil {
		return job.Report{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	handled := make(chan struct{})
	go func() {
		defer close(handled)
		r.handleSignals(ctx, run)
	}()
	defer func() { cancel(); <-handled }()
	return follow(ctx, client, run, "", r.show)
}

// handleSignals answers the first wish to end with a stop, and the second at once.
func (r *running) handleSignals(ctx context.Context, run *job.Run) {
	select {
	case <-ctx.Done():
		return
	case s := <-r.p.Signals:
		r.show.note("stopping (%v): running calls get %v; once more to end at once. The same command goes on later.", s, max(0, r.spec.WithDefaults().Grace))
		if err := run.Stop(ctx, job.Stop{Reason: fmt.Sprintf("interrupted (%v)", s)}); err != nil {
			r.show.note("%v", err)
		}
	}
	select {
	case <-ctx.Done():
	case <-r.p.Signals:
		r.show.note("ended at once; the same command goes on with %s", r.spec.Name)
		r.p.Exit(ExitInterrupted)
	}
}

// conclude prints what there is to print and gives the exit code.
func (r *running) conclude(ctx context.Context, report job.Report) error {
	if report.State == job.Completed && r.spec.Output == "" {
		var access store.Access
		defer access.Close()
		if _, err := activities.Results(ctx, &access, report, false, 0, r.p.Stdout); err != nil {
			return fmt.Errorf("printing the results: %w", err)
		}
	}
	err := outcome(report)
	switch {
	case r.o.json:
		r.show.show(report)
	case !r.o.quiet || err != nil:
		took := time.Since(r.began)
		if report.Started.Before(r.began) && report.Ended != nil {
			took = report.Ended.Sub(report.Started) // an earlier command has started it
		}
		summary(r.p.Stderr, r.p.Dir, report, took)
		if report.State == job.Stopped || report.State == job.Failed {
			fmt.Fprintln(r.p.Stderr, "  the same command goes on from here")
		}
	}
	return err
}
