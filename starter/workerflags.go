package starter

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/run/command"
	"github.com/stint-run/stint/worker"
)

// workerOptions are the flags that describe a worker.
type workerOptions struct {
	handlers map[string]*string // what the flag of each kind of handler says
	command  worker.CommandOptions
	http     httpFlagValues
	cpus     string
	hooks    []string
	flagged  worker.Options // what the flags say, as they were given
	options  worker.Options // the worker's: set by settle
	given    worker.Options // the program's, which flags override
	flags    *pflag.FlagSet
}

func (o *workerOptions) addFlags(fs *pflag.FlagSet, p *Program) {
	o.flagged, o.given, o.flags = p.Options.Worker, p.Options.Worker, fs
	w := &o.flagged
	o.handlers = map[string]*string{}
	for _, kind := range handlerKinds {
		o.handlers[kind.flag] = fs.String(kind.flag, "", kind.usage)
	}
	o.addCommandFlags(fs)
	o.addHTTPFlags(fs)
	fs.IntVarP(&w.Slots, "slots", "j", w.Slots, "positions for running batches (default: the number of CPUs)")
	w.Concurrency = cmp.Or(w.Concurrency, 1)
	fs.Var((*concurrencyFlag)(w), "concurrency", "calls that a slot makes at once, of one batch or several, for handlers that wait for something: 1 to 1000, or auto: the worker finds out how many are of use")
	fs.IntVar(&w.CallItems, "call-items", max(0, w.CallItems), "most items of a call; 0: items one by one (default: the worker chooses)")
	fs.Lookup("call-items").DefValue = zeroDefault
	fs.Int64Var(&w.Seed, "seed", w.Seed, "STINT_SEED of a slot is this plus the slot's number")
	fs.StringVar(&o.cpus, "cpus", "", "`CPUS` that the slots' processes may run on: 0-3,6 for all slots, or 0;1;2-3 slot by slot (default: all)")
	fs.IntVar(&w.Restarts, "restarts", givenRestarts(w), "how often in a row a slot's process may be replaced")
	fs.DurationVar(&w.Ready, "ready", cmp.Or(w.Ready, time.Minute), "how long a slot's process may take until it is ready")
	fs.StringArrayVar(&w.Env, "env", w.Env, "`NAME=VALUE`, or NAME to pass on, for the command's environment, which has little more than PATH and HOME otherwise; repeatable")
	fs.StringArrayVar(&o.hooks, "hook", nil, "`NAME=COMMAND` that jobs can name as --init, --shutdown or --cleanup; repeatable")
	fs.Var((*rateFlag)(&w.Rate), "rate", "most items a second of this worker, such as 250 or 90/m (0: no limit)")
	fs.Lookup("rate").DefValue = zeroDefault
	fs.StringVar(&w.Dir, "dir", w.Dir, "working `DIR` of the command")
	fs.DurationVar(&w.Drain, "drain", cmp.Or(w.Drain, 30*time.Second), "how long running batches may take once the worker has been asked to end")
	fs.DurationVar(&w.KillAfter, "kill-after", cmp.Or(w.KillAfter, 5*time.Second), "the time between TERM and KILL for a process that has to end: up to 15s")
	fs.StringVar(&w.Metrics, "metrics", w.Metrics, "`ADDR`, HOST:PORT or PORT on this machine only (0: a free one), that answers GET /metrics, /health, /readyz and /livez (default: none)")
	fs.StringArrayVar(&w.Allow, "allow", w.Allow, "`ROOT` directory or bucket prefix below which jobs read and write, or all; repeatable ("+p.name()+" worker needs one; "+p.name()+" run always allows what its job names)")
}

// givenRestarts returns the default of --restarts.
func givenRestarts(w *worker.Options) int {
	if w.NoRestarts {
		return 0
	}
	return cmp.Or(w.Restarts, 10)
}

// workerNeverZero are the flags of a worker whose zero would be replaced by the default.
var workerNeverZero = []flagRange{
	{"slots", "1 to 1000"}, {"concurrency", "1 to 1000, or auto"},
	{"ready", "a duration above 0"}, {"drain", "a duration above 0"}, {"kill-after", "a duration above 0, up to 15s"},
}

// zeros translates zeros of flags, which the worker would replace by the default.
func (o *workerOptions) zeros() error {
	w := &o.options
	if err := refuseZeros(o.flags, workerNeverZero); err != nil {
		return err
	}
	if w.CallItems < 0 {
		return usageError("call-items %d: use 0 or more", w.CallItems)
	}
	if w.Restarts < 0 {
		return usageError("restarts %d: use 0 or more", w.Restarts)
	}
	if o.flags.Changed("call-items") {
		w.OneItem = w.CallItems == 0
	}
	w.NoRestarts = w.Restarts == 0
	return nil
}

// handler returns the handler, of the program or of the flags, after checking that it can run.
func (o *workerOptions) handler(p *Program) (worker.Handler, error) {
	h, err := o.choose(p)
	if err != nil {
		return worker.Handler{}, err
	}
	if err := o.settle(p); err != nil {
		return worker.Handler{}, err
	}
	if err := h.Check(o.options); err != nil {
		return worker.Handler{}, usageError("%w", err)
	}
	return h, nil
}

// settle completes the options from the flags.
func (o *workerOptions) settle(p *Program) (err error) {
	if err := refuseEmpty(o.flags, "cpus"); err != nil {
		return err
	}
	o.options = o.flagged
	o.options.Dir = p.path(o.options.Dir)
	if o.flags.Changed("cpus") {
		if o.options.CPUs, err = parseCPUs(o.cpus); err != nil {
			return usageError("--cpus: %v", err)
		}
	}
	if err := cmp.Or(o.zeros(), o.nameHooks()); err != nil {
		return err
	}
	o.passOn(p)
	o.options.Allow, err = absoluteRoots(o.options.Allow, p.Dir)
	return err
}

// passOn gives the variables that --env only names their values in the program's environment, and says which are not
// set there.
func (o *workerOptions) passOn(p *Program) {
	o.options.Env = slices.Clone(o.options.Env)
	for i, name := range o.options.Env {
		if strings.Contains(name, "=") || slices.Contains(o.given.Env, name) {
			continue
		}
		value, set := p.lookup(name)
		if !set {
			fmt.Fprintf(p.Stderr, "--env %s: the variable is not set here, so the command does not get it\n", name)
			continue
		}
		o.options.Env[i] = name + "=" + value
	}
}

// absoluteRoots makes the roots of --allow absolute.
func absoluteRoots(given []string, dir string) ([]string, error) {
	roots := slices.Clone(given)
	for i, root := range roots {
		if root == worker.AllowAll {
			continue
		}
		absolute, err := store.Absolute(root, dir)
		if err != nil {
			return nil, usageError("--allow %q: %w", root, err)
		}
		roots[i] = absolute
	}
	return roots, nil
}

// nameHooks adds the hooks that the flags name to those of the program.
func (o *workerOptions) nameHooks() error {
	o.options.Hooks = map[string]worker.Hook{}
	maps.Copy(o.options.Hooks, o.given.Hooks)
	for _, text := range o.hooks {
		name, line, ok := strings.Cut(text, "=")
		if !ok {
			return usageError("--hook %q: write NAME=COMMAND", text)
		}
		if _, twice := o.options.Hooks[name]; twice {
			return usageError("--hook %s: there is a hook of that name already", name)
		}
		argv, err := command.Split(line)
		if err != nil {
			return usageError("--hook %s: %v", name, err)
		}
		o.options.Hooks[name] = worker.HookCommand(argv...)
		o.options.Protect = slices.Concat(o.options.Protect, worker.Exec(argv...).Files(o.options.Dir))
	}
	return nil
}

// parseCPUs reads lists of CPUs: "0-3,6" is one for all slots, "0;1;2-3" one for each. They come
// out sorted and without repetitions.
func parseCPUs(text string) ([][]int, error) {
	if text == "" {
		return nil, nil
	}
	var lists [][]int
	for list := range strings.SplitSeq(text, ";") {
		var cpus []int
		for part := range strings.SplitSeq(list, ",") {
			first, last, err := parseRange(strings.TrimSpace(part))
			if err != nil {
				return nil, err
			}
			for cpu := first; cpu <= last; cpu++ {
				cpus = append(cpus, cpu)
			}
		}
		slices.Sort(cpus)
		lists = append(lists, slices.Compact(cpus))
	}
	return lists, nil
}

// maxCPU is above the number of any CPU.
const maxCPU = 1 << 16

func parseRange(text string) (first, last int, err error) {
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	first, err = strconv.Atoi(from)
	if err == nil {
		last, err = strconv.Atoi(to)
	}
	if err != nil || first < 0 || last < first || last > maxCPU {
		return 0, 0, fmt.Errorf("%q: use numbers and ranges such as 0-3,6, and semicolons between slots", text)
	}
	return first, last, nil
}
