package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"slices"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/child"
	"github.com/stint-run/stint/internal/trap"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Hook is run for a job: as its init before the first batch, as its shutdown when a stop is
// requested, as its cleanup when everything has ended. Its context ends with the job's call timeout.
// After an error, or a panic, it is repeated, as often as the job's attempts allow. It may also be
// repeated because its worker was lost: HookCall.Key identifies the repetitions.
type Hook func(ctx context.Context, call HookCall) error

// HookCall describes to a hook the job that it runs for.
type HookCall struct {
	Job   string
	Run   string // the job's run; a resumed job has another one
	Pool  string // the job's
	Stage string // "init", "shutdown" or "cleanup"
	// Key is the idempotency key: the same in every repetition of this hook, and unique to it.
	Key string
	// State is the job's state, Reason why it was stopped, if it was.
	State  job.State
	Reason string
	// Worker is the name of the worker that runs the hook.
	Worker string

	env []string // of child processes
	dir string
	log *slog.Logger
}

// Command makes a hook of a program, which must end with status 0. It gets the environment of the
// worker's other child processes, and STINT_JOB, STINT_RUN, STINT_STAGE, STINT_KEY, STINT_STATE and
// STINT_REASON. The end of its standard error is part of its error.
//
// Processes that it leaves in its session (on other systems than Linux: in its process group) are killed within seconds. Those that have begun a
// session of their own, as daemons do (see setsid), are not waited for and stay: also if the hook fails or is ended, and after the job and the
// worker. A cleanup hook can end them. Such a process needs another standard error than the hook's: nobody reads that any more, and writing to it
// would end the process.
func Command(argv ...string) Hook {
	return func(ctx context.Context, call HookCall) error {
		if len(argv) == 0 {
			return errors.New("the hook's command is empty")
		}
		children, err := child.NewDaemonStarter(cmp.Or(call.log, slog.Default()))
		if err != nil {
			return err
		}
		defer children.Close()
		path, err := Options{Dir: call.dir, Env: call.env}.runnable(argv)
		if err != nil {
			return fmt.Errorf("hook: %w", err)
		}
		var stderr child.Tail
		cmd := &exec.Cmd{Path: path, Args: argv, Env: call.environ(), Dir: call.dir, Stderr: &stderr, SysProcAttr: child.GroupAttributes(), WaitDelay: hookOutput}
		process, err := children.Start(cmd, nil)
		if err != nil {
			return fmt.Errorf("starting hook %s: %w", argv[0], err)
		}
		defer trap.OnDone(ctx, "ending a hook", nil, process.Kill)()
		if err := process.Wait(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
			return endFault(err, stderr.Text())
		}
		return nil
	}
}

// hookOutput bounds how long a hook's standard error is read after its end: a daemon may hold it open.
const hookOutput = time.Second

func (c HookCall) environ() []string {
	return append(slices.Clip(c.env),
		"STINT_JOB="+c.Job, "STINT_RUN="+c.Run, "STINT_STAGE="+c.Stage, "STINT_KEY="+c.Key,
		"STINT_STATE="+string(c.State), "STINT_REASON="+c.Reason, "STINT_WORKER="+c.Worker)
}

// hooks are the worker's hooks, as its activities call them.
func (o Options) hooks(worker string) map[string]activities.Hook {
	hooks := map[string]activities.Hook{}
	for name, hook := range o.Hooks {
		hooks[name] = func(ctx context.Context, in wire.HookInput) error {
			return hook(ctx, HookCall{
				Job: in.Ref.Job, Run: in.Ref.Run, Pool: in.Pool, Stage: in.Stage, Key: in.Key,
				State: in.State, Reason: in.Reason, Worker: worker, env: o.childEnv(), dir: o.Dir, log: o.Logger,
			})
		}
	}
	return hooks
}
