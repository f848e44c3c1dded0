package worker

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/feedclient"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/traces"
	"github.com/stint-run/stint/internal/temporal/embedded"
	"github.com/stint-run/stint/internal/web/endpoint"
	"github.com/stint-run/stint/job"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"
)

// Options configure a worker. The zero value of a field means its default.
type Options struct {
	// Name is what the worker is called in reports, followed by the number of its process: [A-Za-z0-9][A-Za-z0-9._-]*,
	// up to 64. Default: the name of its host.
	Name string
	// Slots is how many batches make calls at once; if Concurrency is above 1, several batches may share a slot. As
	// many more may be making their parts durable. Default: the number of CPUs; at most 1,000.
	Slots int
	// Concurrency is how many calls a slot makes at once, of one batch or several, all in the slot's process if it has
	// one: for handlers that wait for something. Results enter the output in the items' order; up to 32 MiB of a
	// batch's, and 128 MiB of a slot's, are held back behind an item that is not done. Above 1, calls of [Each] and
	// [Serve] handlers aim at 5 ms. Default 1; at most 1,000.
	Concurrency int
	// AutoConcurrency, instead of Concurrency, lets the worker find out how many calls its slots should make at once:
	// it begins with 1, makes more for as long as that gets more items done in the same time, and half as many when the
	// handler asks to slow down. At most 1,000 in a slot, and 10,000 in all slots together.
	AutoConcurrency bool
	// CallItems is the most items of one call of a [Batch], [Exec] or [Serve] handler, or one of [HTTP] with lists. Default:
	// the worker chooses.
	CallItems int
	// OneItem, instead of CallItems, hands items over one by one: a [Serve] program gets no lists.
	OneItem bool
	// Seed plus the slot's number is STINT_SEED of the slot's processes. Default 0.
	Seed int64
	// CPUs are the CPUs that the slots' processes may run on: one list for each slot, or one for all.
	// Default: all.
	CPUs [][]int
	// Restarts is how often in a row a slot's process, or a Go handler's call that does not return,
	// may be replaced. Then the slot is out; a worker without slots ends. Default 10.
	Restarts int
	// NoRestarts, instead of Restarts, ends a slot at the first death of its process.
	NoRestarts bool
	// Ready is how long a slot's process, a [Serve] program or one of Processes, may take until it is ready.
	// Default 1 min.
	Ready time.Duration
	// Processes runs each slot of a Go handler in its own process, so that a crash or a hang costs only
	// the item. The processes are this program again: main must call [ChildMain] with the handler first
	// thing, or [New] returns an error. Other handlers ignore it. Default: the calls run in the
	// worker's process.
	Processes bool
	// Rate is the most items a second that the worker begins, of all jobs together, in bursts of one
	// second's items. Default: no limit.
	Rate job.Rate
	// Hooks are functions that jobs of the pool can name, to be run before their first batch, when they
	// are stopped and at their end: see [job.Spec] and [Command]. Names are [a-z0-9][a-z0-9-]*.
	Hooks map[string]Hook
	// Env adds to the environment of child processes: "NAME=value", or "NAME" to pass on the
	// worker's variable. Otherwise they get only PATH, HOME, USER, LANG, LC_*, TZ and TMPDIR.
	Env []string
	// Dir is the working directory of child processes. Default: the worker's own.
	Dir string
	// Drain is how long running batches may take to finish the call in hand and return their rest once
	// the worker has been asked to end. Default 30 s.
	Drain time.Duration
	// KillAfter is the time between TERM and KILL for a process that has to end: at most 15 s, because
	// a job waits for 20 s after a stop's grace. Default 5 s.
	KillAfter time.Duration
	// Allow lists the directories and bucket URL prefixes below which the worker reads and writes, or
	// has [AllowAll] as its only element. Whoever can start a job on the worker's pool reaches all of them.
	// Default: everything that its account and its credentials reach.
	Allow []string
	// Protect lists local files and directories that no job writes, replaces or removes, whatever Allow
	// says. This program's file and those that the handler's command line names are always protected; for
	// hooks see [Handler.Files].
	Protect []string
	// Stdin is the input "-" of jobs; nil if there is none.
	Stdin io.Reader
	// Logger gets the worker's log. Default: slog.Default().
	Logger *slog.Logger
	// Metrics is the HOST:PORT of an HTTP endpoint for as long as the worker runs: GET /metrics is for
	// Prometheus, GET /health, or /readyz, returns the worker's state (see [Health]), with status 503 if it is not
	// healthy, GET /livez says whether the process should be left alone. A port alone listens on this machine only; port 0 takes a free one (see
	// [Worker.MetricsAddress]). There is no authentication. Default: none.
	Metrics string
	// MeterProvider gets the same metrics, for programs that use OpenTelemetry themselves. The caller
	// shuts it down. Default: none.
	MeterProvider metric.MeterProvider
	// Sinks get the worker's counts every SinkInterval, and once more when it has ended, after an
	// error, too. Default: none.
	Sinks []Sink
	// SinkInterval is the time between the snapshots for Sinks. Default 10 s.
	SinkInterval time.Duration
	// Version is that of the handler, as manifests, reports and the list of workers name it: up to 64 letters, digits and
	// . _ + : -, beginning with a letter or digit. A job that is pinned to a version (see [job.Spec].Pin) is run by its
	// workers only. Default: a hash, of 12 digits; of a program over the words of its command and the content of those
	// that are files, of a Go handler of this program's build, of requests over what they are made of.
	Version string
	// NoWorkflows leaves the coordination of jobs to other workers, and NoIO leaves Plan, Commit and Finish to them.
	// The legs of feeds always run with the batches of their pool.
	NoWorkflows bool
	NoIO        bool

	alone   bool           // see embedded.Alone
	reads   []string       // the same
	label   string         // see embedded.Among
	exposed exposed        // see embedded.Expose
	tracer  *traces.Tracer // see embedded.Trace; nil: nobody traces
	// sampler tries a sample of a job with the worker: see embedded.Sample; nil: nobody does.
	sampler calls.Sampler
}

// What CallItems and Concurrency are, after withDefaults, if OneItem or AutoConcurrency is set.
const (
	oneItem         = -1
	autoConcurrency = -1
)

const (
	defaultDrain    = 30 * time.Second
	defaultReady    = time.Minute
	defaultRestarts = 10
	// defaultKillAfter leaves a program time to write what it has; maxKillAfter is below what legs wait for.
	defaultKillAfter = 5 * time.Second
	maxKillAfter     = 15 * time.Second
	defaultSinks     = 10 * time.Second
	maxSlots         = 1000
	maxRestarts      = 1_000_000
)

func (o Options) withDefaults() Options {
	o.Slots = cmp.Or(o.Slots, runtime.NumCPU())
	switch {
	case o.AutoConcurrency:
		o.Concurrency = autoConcurrency
	case o.Concurrency == 0:
		o.Concurrency = 1
	}
	if o.OneItem {
		o.CallItems = oneItem
	}
	if o.Restarts = cmp.Or(o.Restarts, defaultRestarts); o.NoRestarts {
		o.Restarts = 0
	}
	o.Drain = cmp.Or(o.Drain, defaultDrain)
	o.KillAfter = cmp.Or(o.KillAfter, defaultKillAfter)
	o.Ready = cmp.Or(o.Ready, defaultReady)
	o.SinkInterval = cmp.Or(o.SinkInterval, defaultSinks)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	return o
}

var workerNames = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// fieldError returns the error of an option.
func fieldError(field, format string, args ...any) error {
	return &job.FieldError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

func (o Options) validate() error {
	var errs []error
	check := func(good bool, field, format string, args ...any) {
		if !good {
			errs = append(errs, fieldError(field, format, args...))
		}
	}
	check(o.Slots >= 1 && o.Slots <= maxSlots, "Slots", "%d: use 1 to %d", o.Slots, maxSlots)
	check(o.AutoConcurrency || o.Concurrency >= 1 && o.Concurrency <= maxSlots,
		"Concurrency", "%d: use 1 to %d", o.Concurrency, maxSlots)
	check(o.OneItem || o.CallItems >= 0 && o.CallItems <= execItems,
		"CallItems", "%d: use 0 to %d", o.CallItems, execItems)
	check(o.Name == "" || workerNames.MatchString(o.Name),
		"Name", "%q: use up to 64 letters, digits, dots, dashes and underscores, and begin with a letter or digit", o.Name)
	if o.Version != "" {
		if err := limits.CheckVersion(o.Version); err != nil {
			errs = append(errs, fieldError("Version", "%v", err))
		}
	}
	check(o.Restarts >= 0 && o.Restarts <= maxRestarts, "Restarts", "%d: use 0 to %d", o.Restarts, maxRestarts)
	check(o.Rate >= 0 && o.Rate <= limits.MaxRate,
		"Rate", "%v: use 0.001 to %d items a second, 0 for no limit", o.Rate, limits.MaxRate/1000)
	check(o.Ready >= 0, "Ready", "%v: use a duration above 0", o.Ready)
	check(len(o.CPUs) <= 1 || len(o.CPUs) == o.Slots,
		"CPUs", "has %d lists for %d slots: give one for all, or one for each slot", len(o.CPUs), o.Slots)
	check(o.Drain >= 0, "Drain", "%v: use a duration above 0", o.Drain)
	check(o.KillAfter >= 0 && o.KillAfter <= maxKillAfter,
		"KillAfter", "%v: use more than 0s, up to %v", o.KillAfter, maxKillAfter)
	if o.Metrics != "" {
		_, err := endpoint.Address("metrics", o.Metrics)
		errs = append(errs, err)
	}
	check(o.SinkInterval >= 0, "SinkInterval", "%v: use a duration above 0", o.SinkInterval)
	check(!slices.Contains(o.Sinks, nil), "Sinks", "has a nil element")
	errs = append(errs, o.checkAllow())
	if o.Dir != "" {
		if info, err := os.Stat(o.Dir); err != nil {
			errs = append(errs, fieldError("Dir", "%s: %v", o.Dir, errors.Unwrap(err))) // of a *fs.PathError
		} else if !info.IsDir() {
			errs = append(errs, fieldError("Dir", "%s is not a directory", o.Dir))
		}
	}
	for name, hook := range o.Hooks {
		if err := limits.CheckName("hook", name); err != nil {
			errs = append(errs, err)
		}
		if hook == nil {
			errs = append(errs, fmt.Errorf("hook %s is nil", name))
		}
	}
	for _, env := range o.Env {
		check(env != "" && env[0] != '=', "Env", "has an entry without a name: use NAME=value or NAME") // its value may be a secret
	}
	return errors.Join(errs...)
}

// sampled returns a worker's handler and the observer of its calls, or what a sampler puts in their place.
func (o Options) sampled(h calls.Handler, by calls.Observer) (calls.Handler, calls.Observer) {
	if o.sampler == nil {
		return h, by
	}
	return o.sampler.Open(h, by)
}

// killAfter returns how long a process that is ended may take after TERM. When a worker's drain cuts calls off, a tenth
// of it is left; half of that is for writing the part and answering.
func (o Options) killAfter(drained bool) time.Duration {
	if drained {
		return min(o.KillAfter, o.Drain/20)
	}
	return o.KillAfter
}

// callSize bounds calls by Options.CallItems, if it is set, or by items.
func (o Options) callSize(items, bytes int) calls.CallSize {
	switch {
	case o.CallItems == oneItem:
		items = 1
	case o.CallItems > 0:
		items = o.CallItems
	}
	return calls.CallSize{Items: items, Bytes: bytes}
}

// waitingTarget is the duration that calls aim at if a slot makes several at once. They wait for something: with small
// calls as many items as possible are under way, and the last ones of a batch are shared out evenly.
const waitingTarget = 5 * time.Millisecond

// callPace returns how calls are cut. target (0: none), first and most, the items of the first call and of any call,
// are for a slot that makes one call at a time.
func (o Options) callPace(target time.Duration, first, most int) calls.Pace {
	if o.Concurrency != 1 {
		target, first = waitingTarget, 1
	}
	return calls.Pace{Target: target, First: first, Most: most}
}

// DialOption is for the connection of a worker that serves feeds: put it into
// client.Options.ConnectionOptions.DialOptions. Items that a feed refuses for now, because it is full, are then not
// sent back to the server, which does not need them. Otherwise a few large ones at once are more than a message may
// have, and Temporal terminates a part of the feed. The connections of stint's own commands have it.
func DialOption() grpc.DialOption { return feedclient.Slim() }

// AllowAll, as the only element of Options.Allow, lets the worker read and write everything that its account and its
// credentials reach.
const AllowAll = "all"

func init() {
	embedded.SetAlone = func(options any, reads []string) {
		o := options.(*Options)
		o.alone, o.reads = true, reads
	}
	embedded.SetSampler = func(options, sampler any) { options.(*Options).sampler = sampler.(calls.Sampler) }
	embedded.SetTracer = func(options, tracer any) { options.(*Options).tracer = tracer.(*traces.Tracer) }
	embedded.SetAmong = func(options any, label string) { options.(*Options).label = label }
	embedded.SetExposed = func(options any, provider metric.MeterProvider, handler http.Handler) {
		options.(*Options).exposed = exposed{provider, handler}
	}
}

// joiner joins the parts of outputs as they come, if no other worker makes parts of these outputs.
func (o Options) joiner(access *store.Access) outputs.Joiner {
	if o.alone {
		return outputs.NewJoiner(access)
	}
	return outputs.NoJoiner{}
}

// access returns what the jobs of a worker with the handler may reach.
func (o Options) access(h Handler) *store.Access {
	access := &store.Access{Protect: slices.Concat(o.Protect, ownFiles(), commandFiles(h.argv, o.Dir))}
	if !slices.Contains(o.Allow, AllowAll) {
		access.Allow, access.AllowRead = o.Allow, o.reads
	}
	return access
}

// checkAllow returns an error for roots that could never allow anything.
func (o Options) checkAllow() error {
	if len(o.Allow) > 1 && slices.Contains(o.Allow, AllowAll) {
		return fieldError("Allow", "%s makes the other roots useless: use it alone, or write ./%s for a directory of that name", AllowAll, AllowAll)
	}
	var errs []error
	for _, root := range o.Allow {
		if _, err := store.Absolute(root, string(filepath.Separator)); err != nil {
			errs = append(errs, fieldError("Allow", "%q: %v", root, err))
		}
	}
	return errors.Join(errs...)
}

// ownFiles are this program's file, and the name by which it was started.
func ownFiles() (files []string) {
	if path, err := os.Executable(); err == nil {
		files = append(files, path)
	}
	if path, err := exec.LookPath(os.Args[0]); err == nil {
		files = append(files, path)
	}
	return files
}

// Files returns the files that the handler's command line names, for [Options].Protect: the program itself, and each
// argument, or its part after a '=', that is a file now. dir is the command's working directory ("": this process's).
// There are none if it has no command line.
func (h Handler) Files(dir string) []string { return commandFiles(h.argv, dir) }

// commandFiles is [Handler.Files] of a command line.
func commandFiles(argv []string, dir string) (files []string) {
	if len(argv) == 0 {
		return nil
	}
	if path, err := findProgram(argv, dir); err == nil {
		files = append(files, path)
	}
	return append(files, namedFiles(argv[1:], dir)...)
}

// namedFiles returns the words that are files now, or whose part after a '=' is one.
func namedFiles(words []string, dir string) (files []string) {
	for _, arg := range words {
		_, value, _ := strings.Cut(arg, "=")
		for _, name := range []string{arg, value} {
			if name != "" && !filepath.IsAbs(name) {
				name = filepath.Join(dir, name)
			}
			if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
				files = append(files, name)
			}
		}
	}
	return files
}
