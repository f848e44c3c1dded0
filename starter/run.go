package starter

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stint-run/stint/internal/base/location"
	"github.com/stint-run/stint/internal/base/standard"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/run/guard"
	"github.com/stint-run/stint/internal/temporal/devserver"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/local"
	"github.com/stint-run/stint/worker"
)

// stdoutErrors gets the error records of jobs whose results go to stdout, or to where no file can lie beside them.
const stdoutErrors = "stint.errors.jsonl"

type runOptions struct {
	job    jobOptions
	worker workerOptions
	state  string
	uiPort int
	json   bool
	quiet  bool
	dryRun bool

	verbose bool
}

// aboutHandlers is the part of the help of `run` for programs without a handler of their own.
const aboutHandlers = `The handler is a filter (--exec), which gets many items a line each, a program of its own (--serve),
a command that is run for each item (--each, --shell, or what follows --), or an HTTP endpoint or a
model that is sent each item (--http, --llm: docs/http.md). In a command {} is the item,
{.} {/} {//} {/.} are parts of its name, {#} is its number, {1} a column, {name} a field. The items
are lines then, unless the input's name shows another format, or the values after :::, in all
combinations if there are several lists. docs/commands.md has all of it.

`

func newRun(p *Program) *cobra.Command {
	o := &runOptions{}
	handlers := aboutHandlers
	if p.builtIn() {
		handlers = ""
	}
	cmd := &cobra.Command{
		Use:   "run [flags] [INPUT…] [-- COMMAND…] [::: VALUE…]",
		Short: "Run a job in this process, with everything embedded",
		Long: fmt.Sprintf(`Runs the handler over the items of the inputs (files, globs, directories, bucket URLs, - for
stdin, which is read also if it is a pipe and no input is named) and writes the results, in input
order, to --output or to stdout. What stdin brings is run as it comes (--flush), and without
--output its results are printed meanwhile.

%sTemporal, a worker and the job run in this process; their state lies in --state. Interrupted or
killed, the same command continues where it was; finished, it starts afresh. If another job or a
server uses the state, this job has one of its own below it.

The stages of a job file (-f) are run by its 'pools', a map of names to keys such as
{exec: COMMAND, slots: 2}: a worker each, in this process. The flags given here hold for all pools,
unless their keys say otherwise; each has as many slots as there are CPUs by default.

Exit status: 0 every item ok, 1 failed, 2 wrong usage, 3 some items failed, 4 stopped and
resumable, 5 stopped with work still running, 130 ended by a second Ctrl-C.`, handlers),
		Example: `  stint run --exec 'tr a-z A-Z' big.jsonl -o out.jsonl
  stint run --exec 'jq -c .name' 'data/*.jsonl.gz' > names.txt
  tail -f events.jsonl | stint run --exec 'jq -c .user' - > users.txt
  stint run --each 'convert {} {.}.png' --items names 'photos/*.jpg'
  stint run --each 'train --lr {1} --depth {2}' ::: 0.1 0.01 ::: 3 5 7
  stint run --http 'POST https://api.example.com/score' --header 'Authorization: Bearer $TOKEN' \
      --concurrency 50 in.jsonl -o out.jsonl`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, p, args) },
	}
	fs := cmd.Flags()
	o.job.addFlags(fs, p)
	fs.Lookup("expiry").DefValue = local.DefaultExpiry.String()
	o.job.feed.hide(fs)
	o.job.reuse.handler = true
	fs.Lookup("pin").Hidden = true
	o.worker.addFlags(fs, p)
	fs.StringVar(&o.state, "state", defaultState, "`DIR` for Temporal's state and the job's parts")
	fs.IntVar(&o.uiPort, "ui-port", devserver.AnyPort, "port of the web UI (0: no web UI; default: a free one)")
	fs.Lookup("ui-port").DefValue = zeroDefault
	fs.BoolVar(&o.json, "json", false, "progress and final report as JSON lines on stderr")
	fs.BoolVarP(&o.quiet, "quiet", "q", false, "no progress, and no summary if every item is ok")
	fs.BoolVar(&o.dryRun, "dry-run", false, fmt.Sprintf("print the commands of the first %d items, or their requests as commands for curl, and run none", maxPrinted))
	fs.BoolVarP(&o.verbose, "verbose", "v", false, "log to stderr, not to "+logName+" in --state")
	return cmd
}

func (o *runOptions) run(cmd *cobra.Command, p *Program, args []string) error {
	if !filepath.IsAbs(p.Dir) {
		return usageError("the working directory does not exist any more: change to one that does")
	}
	args, err := o.worker.takeCommand(cmd, p, args)
	if err != nil {
		return err
	}
	spec, err := o.job.complete(cmd, args, p.Dir)
	if err != nil {
		return err
	}
	if spec.Pin != "" {
		return usageError("--pin is for jobs on a cluster: what '%s run' runs has one version of its handler", p.name())
	}
	if o.worker.flagged.Version, err = o.job.reuse.handlerVersion(p.Dir); err != nil {
		return err
	}
	if err := o.job.feed.refuse(p, "'run' cannot run a feed: nobody could put items"); err != nil {
		return err
	}
	if err := o.takeLists(cmd.Flags(), p, &spec); err != nil {
		return err
	}
	if len(spec.Inputs()) == 0 && given(p.Stdin) {
		spec.Files.Input = []string{job.StandardInput}
	}
	if err := p.checkStandard(spec); err != nil {
		return err
	}
	pools, err := o.job.localPools(p, &o.worker, spec)
	if err != nil {
		return err
	}
	var handler worker.Handler
	if pools == nil {
		if o.worker.runsEach() {
			o.worker.eachItem(&spec)
		}
		if handler, err = o.worker.handler(p); err != nil {
			return err
		}
		o.worker.moreAttempts(cmd, &spec)
		if err := o.worker.checkPrices(spec); err != nil {
			return err
		}
	}
	if !cmd.Flags().Changed("expiry") {
		spec.Expiry = local.DefaultExpiry
	}
	if err := checkPort(cmd.Flags(), "ui-port", o.uiPort); err != nil {
		return err
	}
	spec = o.named(spec, whatRuns(p, spec, handler, pools), p)
	if err := o.checkPlaces(cmd.Flags(), p, spec, standard.Writable); err != nil {
		return err
	}
	state := p.path(o.state)
	check := spec
	if check.Output == "" {
		check.Store = state
	}
	check = check.WithDefaults()
	check.Store = state // its exact place below does not matter here
	if err := check.Validate(); err != nil {
		return usageError("%w", err)
	}
	if o.dryRun {
		return o.printFirst(cmd.Context(), p, check, handler)
	}
	sent, err := o.traced(cmd.Context(), p, pools)
	if err != nil {
		return err
	}
	defer sent()
	r := &running{
		o: o, p: p, spec: spec, pools: pools, state: stateOf(state, spec.Name), flags: cmd.Flags(), show: progressOf(p, o.json),
		do: func(ctx context.Context, options local.Options) (job.Report, error) {
			return local.Run(ctx, spec, handler, options)
		},
	}
	r.show.silent, r.show.lookedAt = o.quiet, lookedAt(spec)
	r.show.bare = spec.Streams() && p.TerminalOut
	return r.all(cmd.Context())
}

// traced has the workers of the run make spans, if the environment asks for that.
func (o *runOptions) traced(ctx context.Context, p *Program, pools map[string]local.Pool) (end func(), err error) {
	workers := []*worker.Options{&o.worker.options}
	own := map[string]*local.Pool{}
	for name, pool := range pools {
		own[name] = &pool
		workers = append(workers, &own[name].Options)
	}
	end, err = p.traced(ctx, workers...)
	for name, pool := range own {
		pools[name] = *pool
	}
	return end, err
}

// given reports whether the standard input is a pipe or a file, which somebody has given to this command.
func given(stdin io.Reader) bool {
	file, ok := stdin.(interface{ Stat() (fs.FileInfo, error) })
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && (info.Mode().IsRegular() || info.Mode()&fs.ModeNamedPipe != 0)
}

// named gives the job its name and its pool. The name is a hash of what distinguishes the job from
// others: tuning flags do not count. The pool belongs to the job alone, so that batches of another job
// of the same state never reach this one's handler.
func (o *runOptions) named(spec job.Spec, does string, p *Program) job.Spec {
	if spec.Name == "" {
		identity := slices.Concat([]string{p.Dir}, spec.Inputs(), []string{"\x00", spec.Output, does, spec.Format})
		identity = append(identity, o.worker.identity(p)...)
		if spec.Files.Names {
			identity = append(identity, "names")
		}
		if spec.Flatten {
			identity = append(identity, "flatten")
		}
		if spec.Split != "" {
			identity = append(identity, "split", spec.SplitField())
		}
		if spec.Files.Delimiter != "" {
			identity = append(identity, spec.Files.Delimiter)
		}
		if spec.Files.Quote != "" {
			identity = append(identity, "quote", spec.Files.Quote)
		}
		sum := sha256.Sum256([]byte(strings.Join(identity, "\x00")))
		spec.Name = "run-" + hex.EncodeToString(sum[:5])
	}
	if spec.Pool == "" && len(spec.Stages) == 0 {
		spec.Pool = spec.Name
	}
	if spec.Errors == "" && (spec.Output == "" || hasNoPlace(spec.Output)) {
		spec.Errors = filepath.Join(p.Dir, stdoutErrors)
	}
	return spec
}

// whatRuns describes what a job does with its items: its handler, or its stages and the handlers of their pools.
func whatRuns(p *Program, spec job.Spec, handler worker.Handler, pools map[string]local.Pool) string {
	describe := func(h worker.Handler) string {
		if p.builtIn() && h.Name() == p.Handler.Name() {
			return p.name() + " " + h.Name()
		}
		return h.Name()
	}
	if pools == nil {
		return describe(handler)
	}
	stages, err := json.Marshal(spec.Stages)
	if err != nil {
		panic(fmt.Errorf("stages that cannot be written: %w", err)) // they are texts and lists of them
	}
	does := []string{string(stages)}
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		does = append(does, name, describe(pools[name].Handler))
	}
	return strings.Join(does, "\x00")
}

// running is one execution of `run`, or of a command that continues its job.
type running struct {
	o     *runOptions
	p     *Program
	spec  job.Spec              // of a command that continues a job, its name only
	pools map[string]local.Pool // of a pipeline
	state string
	flags *pflag.FlagSet // of the command
	show  *progress
	began time.Time
	// do runs the job to its end.
	do func(context.Context, local.Options) (job.Report, error)

	log          *runLog      // nil: the log goes to standard error
	logger       *slog.Logger // of the server and of Temporal's SDK
	workerLogger *slog.Logger
}

// openLog makes the server and the worker log to a file of this run: the job itself reports what a person should know.
func (r *running) openLog() (closeLog func()) {
	if r.o.verbose {
		r.logger, r.workerLogger = newLogger(r.p.Stderr, true), newLogger(r.p.Stderr, true)
		return func() {}
	}
	log := &runLog{state: r.state}
	r.log = log
	r.logger, r.workerLogger = newLogger(log, false), newLogger(log, true)
	return func() {
		if err := log.close(); err != nil {
			r.show.note("%v", err)
		}
	}
}

// all runs the job, and prints what it has to print. The end of ctx ends it without a stop.
func (r *running) all(ctx context.Context) error {
	r.began = time.Now()
	if r.p.OutliveReaders != nil {
		r.p.OutliveReaders()
	}
	defer r.openLog()()
	defer guard.Prepare()()
	stopCtx, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	ended, watched := make(chan struct{}), make(chan struct{})
	trap.Watched("waiting for signals", r.p.defect, func() {
		defer close(watched)
		r.handleSignals(ended, stop)
	})
	report, err := r.inAState(ctx, stopCtx)
	close(ended)
	<-watched
	r.show.end()
	switch {
	case report.State.Final() && (err == nil || isEnd(err, stopCtx)):
		return r.conclude(report)
	case stopCtx.Err() != nil && errors.Is(err, context.Cause(stopCtx)),
		errors.Is(err, syscall.EPIPE): // who read the results has ended
		return &codeError{code: ExitStopped, err: err}
	}
	return err
}

// isEnd reports whether an error only says how the job ended, as its report does.
func isEnd(err error, stopped context.Context) bool {
	return wraps[*jobs.FailedError](err) || stopped.Err() != nil && errors.Is(err, context.Cause(stopped))
}

func (r *running) options(ctx context.Context) local.Options {
	o := local.Options{
		State: r.state, Fresh: r.o.job.fresh, Worker: r.o.worker.options, Pools: r.pools, Results: r.p.results(),
		Progress: r.show.show, ProgressInterval: r.show.every(),
		Note: func(text string) { r.show.note("%s", text) }, Ready: r.ready,
		UI: r.o.uiPort != devserver.NoUI, UIPort: max(0, r.o.uiPort), Program: r.p.name(), Logger: r.logger, Abort: ctx.Done(),
	}
	o.Worker.Logger, o.Worker.Stdin = r.workerLogger, r.p.Stdin
	o.Worker.Protect = append(slices.Clone(o.Worker.Protect), filepath.Join(r.state, logName))
	return o
}

// ready says where the web UI and the metrics are.
func (r *running) ready(a local.Addresses) {
	if a.UI != "" && r.p.Terminal {
		r.p.page = a.Page // the first report has the job's address
	}
	for _, address := range a.Metrics {
		r.show.note(metricsNote, address)
	}
}

// conclude prints how the job has ended and gives the exit code.
func (r *running) conclude(report job.Report) error {
	err := outcome(report)
	switch {
	case r.o.json:
		r.show.show(report)
	case !r.o.quiet || err != nil:
		took := time.Since(r.began)
		if report.Started.Before(r.began) && report.Ended != nil {
			took = report.Ended.Sub(report.Started) // an earlier command has started it
		}
		summary(r.p.Stderr, r.p.Dir, report, took, false)
		r.whatNext(report)
	}
	return err
}

// whatNext names the command that fits the end of the job, to be pasted as it stands.
func (r *running) whatNext(report job.Report) {
	switch {
	case report.State == job.Completed && report.Failed > 0 && r.spec.OnError != job.OnErrorDrop:
		fmt.Fprintf(r.p.Stderr, "  to run the failed items again: %s\n", r.again("redrive"))
		r.noteHidden()
	case report.State == job.Failed && report.Error != nil && report.Error.Type == job.ErrorFenced:
		fmt.Fprintln(r.p.Stderr, "  the same command starts it afresh")
	case (report.State == job.Stopped || report.State == job.Failed) && slices.Contains(r.spec.Inputs(), job.StandardInput) && !report.PlanDone:
		fmt.Fprintln(r.p.Stderr, "  the same command starts afresh, because the standard input had not been read to its end")
	case report.State == job.Stopped || report.State == job.Failed:
		fmt.Fprintln(r.p.Stderr, "  the same command continues from here")
		if !slices.Contains(r.spec.Inputs(), "-") {
			fmt.Fprintf(r.p.Stderr, "  and so does: %s\n", r.again("resume"))
			r.noteHidden()
		}
	}
}

// noteHidden says what a printed command needs beside its words.
func (r *running) noteHidden() {
	if names := r.hidden(); len(names) > 0 {
		fmt.Fprintf(r.p.Stderr, "  (it takes the values of these variables from its environment, so export them first: %s)\n", strings.Join(names, ", "))
	}
	if names := r.hiddenHeaders(); len(names) > 0 {
		fmt.Fprintf(r.p.Stderr, "  (put the values of these headers in: %s)\n", strings.Join(names, ", "))
	}
}

// checkPlaces refuses a job that would write into a working directory which cannot be written, because nothing names
// another place.
func (o *runOptions) checkPlaces(fs *pflag.FlagSet, p *Program, spec job.Spec, writable func(dir string) bool) error {
	if writable(p.Dir) {
		return nil
	}
	var flags []string
	if state := p.path(defaultState); !fs.Changed("state") && !writable(state) {
		flags = append(flags, "--state DIR")
	}
	if spec.Errors == filepath.Join(p.Dir, stdoutErrors) {
		if info, err := os.Lstat(spec.Errors); err != nil || info.Mode().IsRegular() {
			flags = append(flags, "--errors FILE")
		}
	}
	if len(flags) == 0 {
		return nil
	}
	return usageError("the working directory, %s, cannot be written: name another place with %s", p.Dir, strings.Join(flags, " and "))
}

// hasNoPlace reports whether an output, an absolute path, is a device, or something that a process has open: no file
// belongs beside it.
func hasNoPlace(output string) bool {
	info, err := os.Stat(output)
	if err != nil || location.IsURL(output) {
		return false
	}
	dir := filepath.Dir(output)
	return info.Mode()&os.ModeDevice != 0 || dir == "/dev" || dir == "/dev/fd" || strings.HasPrefix(dir, "/proc/")
}
