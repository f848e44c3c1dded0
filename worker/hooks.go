package worker

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/job"
)

// Hook is run for a job: as its init before the first batch, as its shutdown when a stop is
// requested, as its cleanup when everything has ended. Its context ends with the job's call timeout.
// An error, or a panic, has it repeated, as often as the job's attempts say. It may also be repeated
// because its worker was lost: HookCall.Key tells the repetitions.
type Hook func(ctx context.Context, call HookCall) error

// HookCall tells a hook what it is run for.
type HookCall struct {
	Job   string
	Run   string // which run of the job: resumed, it has another
	Pool  string // the job's
	Stage string // job.StageInit, job.StageShutdown or job.StageCleanup
	// Key is the idempotency key: the same in every repetition of this hook, and never another's.
	Key string
	// State is how the job stands, and Reason why it was stopped, where it was.
	State  job.State
	Reason string
	// Worker is the name of the worker that runs the hook.
	Worker string

	env []string // of child processes
	dir string
}

// Command makes a hook of a program, which must end with status 0. It gets the environment of the
// worker's other child processes, and STINT_JOB, STINT_RUN, STINT_STAGE, STINT_KEY, STINT_STATE and
// STINT_REASON. The last it writes to its standard error is part of its error. Processes of its group
// are killed once it has ended; what has left the group, as daemons do, goes on and is not waited for.
func Command(argv ...string) Hook {
	return func(ctx context.Context, call HookCall) error {
		if len(argv) == 0 {
			return errors.New("the hook's command is empty")
		}
		children, err := newChildren()
		if err != nil {
			return err
		}
		defer children.close()
		path, err := exec.LookPath(argv[0])
		if err != nil {
			return fmt.Errorf("hook %s: %w", argv[0], err)
		}
		var stderr tail
		cmd := &exec.Cmd{Path: path, Args: argv, Env: call.environ(), Dir: call.dir, Stderr: &stderr, SysProcAttr: childAttributes(), WaitDelay: hookOutput}
		child, err := children.startOn(cmd, nil)
		if err != nil {
			return fmt.Errorf("starting hook %s: %w", argv[0], err)
		}
		defer context.AfterFunc(ctx, child.kill)()
		if err := child.wait(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
			return crash(err, stderr.text())
		}
		return nil
	}
}

// hookOutput is how long a hook's standard error is read after its end: a daemon may hold it open.
const hookOutput = time.Second

func (c HookCall) environ() []string {
	return append(c.env[:len(c.env):len(c.env)],
		"STINT_JOB="+c.Job, "STINT_RUN="+c.Run, "STINT_STAGE="+c.Stage, "STINT_KEY="+c.Key,
		"STINT_STATE="+string(c.State), "STINT_REASON="+c.Reason, "STINT_WORKER="+c.Worker)
}

// hooks are the worker's hooks, as its activities call them.
func (o Options) hooks(worker string) map[string]activities.Hook {
	hooks := map[string]activities.Hook{}
	for name, hook := range o.Hooks {
		hooks[name] = func(ctx context.Context, in activities.HookInput) error {
			return hook(ctx, HookCall{
				Job: in.Ref.Job, Run: in.Ref.Run, Pool: in.Pool, Stage: in.Stage, Key: in.Key,
				State: in.State, Reason: in.Reason, Worker: worker, env: o.childEnv(), dir: o.Dir,
			})
		}
	}
	return hooks
}
