package starter

import (
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/stint-run/stint/worker"
)

// workerOptions are the flags that describe a worker.
type workerOptions struct {
	exec    string
	serve   string
	cpus    string
	hooks   []string
	options worker.Options
	flags   *pflag.FlagSet
}

func (o *workerOptions) addFlags(fs *pflag.FlagSet) {
	w := &o.options
	o.flags = fs
	fs.StringVar(&o.exec, "exec", "", "filter `COMMAND` to run: n lines in, n lines out; split like a shell would, run without one")
	fs.StringVar(&o.serve, "serve", "", "`COMMAND` of a program that stays and speaks the serve protocol (docs/protocol.md): one for each slot")
	fs.IntVar(&w.Slots, "slots", 0, "positions for running batches (default: the number of CPUs)")
	fs.IntVar(&w.Concurrency, "concurrency", 1, "batches that a slot runs at once, for handlers that wait for something")
	fs.IntVar(&w.CallItems, "call-items", 0, "most items of a call; 0: items one by one (default: what the worker thinks best)")
	fs.Lookup("call-items").DefValue = zeroDefault
	fs.Int64Var(&w.Seed, "seed", 0, "what a slot finds in STINT_SEED is this plus the slot's number")
	fs.StringVar(&o.cpus, "cpus", "", "`CPUS` that the slots' processes may run on: 0-3,6 for all slots, or 0;1;2-3 slot by slot (default: all)")
	fs.IntVar(&w.Restarts, "restarts", 10, "how often in a row a slot's process may be replaced")
	fs.DurationVar(&w.Ready, "ready", time.Minute, "how long a --serve program may take to get ready")
	fs.StringArrayVar(&w.Env, "env", nil, "`NAME=VALUE`, or NAME to pass on, for the command's environment; repeatable")
	fs.StringArrayVar(&o.hooks, "hook", nil, "`NAME=COMMAND` that jobs can name as --init, --shutdown or --cleanup; repeatable")
	fs.Var((*rateFlag)(&w.Rate), "rate", "most items a second of this worker, such as 250 or 90/m (0: no limit)")
	fs.Lookup("rate").DefValue = zeroDefault
	fs.StringVar(&w.Dir, "dir", "", "working `DIR` of the command")
	fs.DurationVar(&w.Drain, "drain", 30*time.Second, "how long running batches may take once the worker is to end")
	fs.StringVar(&w.Metrics, "metrics", "", "`ADDR`, HOST:PORT or PORT on this machine only (0: a free one), that answers GET /metrics and /health (default: none)")
	fs.StringArrayVar(&w.Allow, "allow", nil, "`ROOT` directory or bucket prefix below which the worker may read and write; repeatable (default: all)")
}

// zeros gives those flags whose 0 means something to the worker as it wants them.
func (o *workerOptions) zeros() error {
	w := &o.options
	if w.CallItems < 0 {
		return usageError("call-items %d: use 0 or more", w.CallItems)
	}
	if w.Restarts < 0 {
		return usageError("restarts %d: use 0 or more", w.Restarts)
	}
	if w.CallItems == 0 && o.flags.Changed("call-items") {
		w.CallItems = worker.OneItem
	}
	if w.Restarts == 0 {
		w.Restarts = worker.NoRestarts
	}
	return nil
}

// handler makes the handler that the flags name and checks that it can run.
func (o *workerOptions) handler(p *Program) (worker.Handler, error) {
	o.options.Dir = p.path(o.options.Dir)
	flag, command, kind := "exec", o.exec, worker.Exec
	switch {
	case o.exec == "" && o.serve == "":
		return worker.Handler{}, usageError("what shall be done with the items? Give --exec COMMAND or --serve COMMAND")
	case o.exec != "" && o.serve != "":
		return worker.Handler{}, usageError("a worker has one handler: give either --exec or --serve")
	case o.serve != "":
		flag, command, kind = "serve", o.serve, worker.Serve
	}
	argv, err := worker.SplitCommand(command)
	if err != nil {
		return worker.Handler{}, usageError("--%s: %v", flag, err)
	}
	if o.options.CPUs, err = parseCPUs(o.cpus); err != nil {
		return worker.Handler{}, usageError("--cpus: %v", err)
	}
	if err := o.zeros(); err != nil {
		return worker.Handler{}, err
	}
	if err := o.nameHooks(); err != nil {
		return worker.Handler{}, err
	}
	h := kind(argv...)
	if err := h.Check(o.options); err != nil {
		return worker.Handler{}, usageError("%v", err)
	}
	return h, nil
}

// nameHooks gives the worker the hooks that the flags name.
func (o *workerOptions) nameHooks() error {
	o.options.Hooks = map[string]worker.Hook{}
	for _, text := range o.hooks {
		name, command, ok := strings.Cut(text, "=")
		if !ok {
			return usageError("--hook %q: write NAME=COMMAND", text)
		}
		if _, twice := o.options.Hooks[name]; twice {
			return usageError("--hook %s is given twice", name)
		}
		argv, err := worker.SplitCommand(command)
		if err != nil {
			return usageError("--hook %s: %v", name, err)
		}
		o.options.Hooks[name] = worker.Command(argv...)
	}
	return nil
}
