package worker

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/stint-run/stint/activities"
)

// Options tune a worker. The zero value of a field means its default.
type Options struct {
	// Slots is how many batches make calls at once; as many more may be making their parts durable.
	// Default: the number of CPUs; at most 1,000.
	Slots int
	// CallItems is the most items of one call of a [Batch] or [Exec] handler. Default: what the
	// worker thinks best.
	CallItems int
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
	// NoWorkflows and NoIO leave the coordination, and Plan, Commit and Finish, to other workers.
	NoWorkflows bool
	NoIO        bool
}

const (
	defaultDrain = 30 * time.Second
	maxSlots     = 1000
)

func (o Options) withDefaults() Options {
	if o.Slots == 0 {
		o.Slots = runtime.NumCPU()
	}
	if o.Drain == 0 {
		o.Drain = defaultDrain
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
	if o.CallItems < 0 || o.CallItems > execItems {
		errs = append(errs, fmt.Errorf("call-items %d: use 0 (automatic) to %d", o.CallItems, execItems))
	}
	if o.Drain < 0 {
		errs = append(errs, fmt.Errorf("drain %v: use a duration above 0", o.Drain))
	}
	if o.Dir != "" {
		if info, err := os.Stat(o.Dir); err != nil {
			errs = append(errs, fmt.Errorf("dir: %w", err))
		} else if !info.IsDir() {
			errs = append(errs, fmt.Errorf("dir %s is not a directory", o.Dir))
		}
	}
	for _, env := range o.Env {
		if env == "" || env[0] == '=' {
			errs = append(errs, fmt.Errorf("env %q: use NAME=value or NAME", env))
		}
	}
	return errors.Join(errs...)
}

// callSize bounds calls by the option, where it is set, or by items.
func (o Options) callSize(items, bytes int) activities.CallSize {
	if o.CallItems > 0 {
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
