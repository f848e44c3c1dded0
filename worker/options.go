package worker

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/job"
	"go.opentelemetry.io/otel/metric"
)

// Options tune a worker. The zero value of a field means its default.
type Options struct {
	// Slots is how many batches make calls at once; as many more may be making their parts durable.
	// Default: the number of CPUs; at most 1,000.
	Slots int
	// Concurrency is how many calls a slot runs at once, of a [Serve] handler in the same process: for
	// handlers that wait for something. Default 1; at most 1,000.
	Concurrency int
	// CallItems is the most items of one call of a [Batch], [Exec] or [Serve] handler; [OneItem] hands
	// items over one by one. Default: what the worker thinks best.
	CallItems int
	// Seed plus the slot's number is what its processes find in STINT_SEED. Default 0.
	Seed int64
	// CPUs are those that the slots' processes may run on: one list for each slot, or one for all.
	// Default: all.
	CPUs [][]int
	// Restarts is how often in a row a slot's process, or a Go handler's call that does not return,
	// may be replaced. Then the slot is out; a worker without slots ends. Default 10; [NoRestarts]
	// for none.
	Restarts int
	// Ready is how long a [Serve] program may take to get ready. Default 1 min.
	Ready time.Duration
	// Isolate runs a Go handler's slots in processes of their own: this program again, which calls
	// [New] with the same pool and then serves instead of returning from it. What main does before
	// must work in them too.
	Isolate bool
	// Rate is the most items that the worker begins in a time, of all jobs together, in bursts of one
	// second's items. Default: no limit.
	Rate job.Rate
	// Hooks are functions that jobs of the pool can name, for before their first batch, for when they
	// are stopped and for their end: see [job.Spec] and [Command]. Names are [a-z0-9][a-z0-9-]*.
	Hooks map[string]Hook
	// Env adds to the environment of child processes: "NAME=value", or "NAME" to pass on the
	// worker's own. They get nothing else but PATH, HOME, USER, LANG, LC_*, TZ and TMPDIR.
	Env []string
	// Dir is the working directory of child processes. Default: the worker's own.
	Dir string
	// Drain is how long running batches may take, once the worker is to end, to finish the call
	// in hand and return their rest. Default 30 s.
	Drain time.Duration
	// Allow lists the directories and bucket URL prefixes below which the worker reads and writes.
	// Default: everything that its credentials reach.
	Allow []string
	// Alone says that no other worker serves the pool while this one runs. It then joins the parts
	// of a job's output as they come, and not only at the end.
	Alone bool
	// Stdin is the input "-" of jobs; nil where there is none.
	Stdin io.Reader
	// Logger gets what the worker has to say. Default: slog.Default().
	Logger *slog.Logger
	// Metrics is the HOST:PORT of an HTTP endpoint for as long as the worker runs: GET /metrics is for
	// Prometheus, GET /health tells how the worker is (see [Health]), with status 503 where it is not
	// healthy. A port alone is for this machine only; port 0 takes a free one (see
	// [Worker.MetricsAddress]). It knows no authentication. Default: none.
	Metrics string
	// MeterProvider gets the same metrics, for programs that have an OpenTelemetry of their own; it
	// stays the caller's. Default: none.
	MeterProvider metric.MeterProvider
	// Sinks get what the worker counts every SinkInterval, and once more when it has ended, after an
	// error, too. Default: none.
	Sinks []Sink
	// SinkInterval is the time between the snapshots for Sinks. Default 10 s.
	SinkInterval time.Duration
	// NoWorkflows and NoIO leave the coordination, and Plan, Commit and Finish, to other workers.
	NoWorkflows bool
	NoIO        bool
}

const (
	// OneItem, as Options.CallItems, hands items over one by one.
	OneItem = -1
	// NoRestarts, as Options.Restarts, has the first death of a slot's process end the slot.
	NoRestarts = -1
)

const (
	defaultDrain    = 30 * time.Second
	defaultReady    = time.Minute
	defaultRestarts = 10
	defaultSinks    = 10 * time.Second
	maxSlots        = 1000
	maxRestarts     = 1_000_000
)

func (o Options) withDefaults() Options {
	if o.Slots == 0 {
		o.Slots = runtime.NumCPU()
	}
	if o.Concurrency == 0 {
		o.Concurrency = 1
	}
	if o.Drain == 0 {
		o.Drain = defaultDrain
	}
	if o.Ready == 0 {
		o.Ready = defaultReady
	}
	switch o.Restarts {
	case 0:
		o.Restarts = defaultRestarts
	case NoRestarts:
		o.Restarts = 0
	}
	if o.SinkInterval == 0 {
		o.SinkInterval = defaultSinks
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

func (o Options) validate() error {
	var errs []error
	if o.Slots < 1 || o.Slots > maxSlots {
		errs = append(errs, fmt.Errorf("slots %d: use 1 to %d", o.Slots, maxSlots))
	}
	if o.Concurrency < 1 || o.Concurrency > maxSlots || o.Slots*o.Concurrency > maxSlots*maxSlots {
		errs = append(errs, fmt.Errorf("concurrency %d: use 1 to %d", o.Concurrency, maxSlots))
	}
	if o.CallItems < OneItem || o.CallItems > execItems {
		errs = append(errs, fmt.Errorf("call-items %d: use 0 to %d", o.CallItems, execItems))
	}
	if o.Restarts < 0 || o.Restarts > maxRestarts {
		errs = append(errs, fmt.Errorf("restarts %d: use 0 to %d", o.Restarts, maxRestarts))
	}
	if o.Rate < 0 || o.Rate > job.MaxRate {
		errs = append(errs, fmt.Errorf("rate %v: use 0.001 to %d items a second, 0 for no limit", o.Rate, job.MaxRate/1000))
	}
	if o.Ready < 0 {
		errs = append(errs, fmt.Errorf("ready limit %v: use a duration above 0", o.Ready))
	}
	if len(o.CPUs) > 1 && len(o.CPUs) != o.Slots {
		errs = append(errs, fmt.Errorf("cpus: %d lists for %d slots: give one for all, or one for each slot", len(o.CPUs), o.Slots))
	}
	if o.Drain < 0 {
		errs = append(errs, fmt.Errorf("drain %v: use a duration above 0", o.Drain))
	}
	errs = append(errs, o.checkMetrics())
	if o.Dir != "" {
		if info, err := os.Stat(o.Dir); err != nil {
			errs = append(errs, fmt.Errorf("dir: %w", err))
		} else if !info.IsDir() {
			errs = append(errs, fmt.Errorf("dir %s is not a directory", o.Dir))
		}
	}
	for name, hook := range o.Hooks {
		if err := job.CheckName("hook", name); err != nil {
			errs = append(errs, err)
		}
		if hook == nil {
			errs = append(errs, fmt.Errorf("hook %s is nil", name))
		}
	}
	for _, env := range o.Env {
		if env == "" || env[0] == '=' {
			errs = append(errs, fmt.Errorf("env %q: use NAME=value or NAME", env))
		}
	}
	return errors.Join(errs...)
}

// termLimit is how long a process may take to end after TERM, where that is the cause. A worker that is
// about to be gone has a tenth of its drain left, of which the part and the answer want some.
func (o Options) termLimit(cause error) time.Duration {
	if activities.Drained(cause) {
		return min(termLimit, o.Drain/20)
	}
	return termLimit
}

// callSize bounds calls by the option, where it is set, or by items.
func (o Options) callSize(items, bytes int) activities.CallSize {
	switch {
	case o.CallItems == OneItem:
		items = 1
	case o.CallItems > 0:
		items = o.CallItems
	}
	return activities.CallSize{Items: items, Bytes: bytes}
}

// passedOn are the variables of its own environment that a worker gives to its children; those
// that end in '*' are prefixes.
var passedOn = []string{"PATH", "HOME", "USER", "LANG", "LC_*", "TZ", "TMPDIR"}

// childEnv is the environment of child processes.
func (o Options) childEnv() []string {
	var env []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		for _, pass := range passedOn {
			if prefix, ok := strings.CutSuffix(pass, "*"); name == pass || ok && strings.HasPrefix(name, prefix) {
				env = append(env, v)
			}
		}
	}
	for _, v := range o.Env {
		if !strings.Contains(v, "=") {
			value, ok := os.LookupEnv(v)
			if !ok {
				continue
			}
			v += "=" + value
		}
		env = append(env, v)
	}
	return env
}

// slotInfo tells of a slot.
func (o Options) slotInfo(worker string) func(slot, incarnation int) SlotInfo {
	return func(slot, incarnation int) SlotInfo {
		return SlotInfo{Worker: worker, Slot: slot, Incarnation: incarnation, MaxRestarts: o.Restarts, Seed: o.Seed + int64(slot)}
	}
}

// slotEnv is what a slot's process learns of itself.
func (o Options) slotEnv(worker string, slot, incarnation int) []string {
	return []string{
		"STINT_WORKER=" + worker,
		"STINT_SLOT=" + strconv.Itoa(slot),
		"STINT_INCARNATION=" + strconv.Itoa(incarnation),
		"STINT_MAX_RESTARTS=" + strconv.Itoa(o.Restarts),
		"STINT_SEED=" + strconv.FormatInt(o.Seed+int64(slot), 10),
	}
}

// threads are the variables by which libraries for numbers are told how many threads to use. As
// every slot has a process of its own, each gets one.
var threads = []string{
	"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
	"VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS",
}

// oneThread is the environment that keeps libraries to one thread, unless env says otherwise.
func oneThread(env []string) []string {
	var out []string
	for _, name := range threads {
		if !slices.ContainsFunc(env, func(v string) bool { return v == name || strings.HasPrefix(v, name+"=") }) {
			out = append(out, name+"=1")
		}
	}
	return out
}

// cpusOf are the CPUs that a slot's process may run on; nil: all.
func (o Options) cpusOf(slot int) []int {
	switch len(o.CPUs) {
	case 0:
		return nil
	case 1:
		return o.CPUs[0]
	}
	return o.CPUs[slot]
}

// checkCPUs tells of CPUs that do not exist or that the worker may not use.
func (o Options) checkCPUs() error {
	if len(o.CPUs) == 0 {
		return nil
	}
	usable, err := usableCPUs()
	if err != nil {
		return fmt.Errorf("cpus: %w", err)
	}
	for _, list := range o.CPUs {
		if len(list) == 0 {
			return errors.New("cpus: a list is empty")
		}
		for _, cpu := range list {
			if cpu < 0 || cpu >= maxCPUs || !usable(cpu) {
				return fmt.Errorf("cpus: there is no CPU %d that this process may use", cpu)
			}
		}
	}
	return nil
}

// maxCPUs is how many the kernel's sets have room for.
const maxCPUs = 1024
