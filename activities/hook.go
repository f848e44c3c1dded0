package activities

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
)

// Hook is a function of a worker that a job can name.
type Hook func(ctx context.Context, in wire.HookInput) error

// Hook runs a hook. Its context ends with the job's call timeout.
func (a *Activities) Hook(ctx context.Context, in wire.HookInput) (err error) {
	defer beating(ctx)()
	hook := a.opts.Hooks[in.Name]
	if hook == nil {
		return sendable(ledger.Permanent(job.ErrorNoHook, fmt.Errorf("the worker has no hook %q%s: start the workers with --hook %s=COMMAND", in.Name, a.knownHooks(), in.Name)))
	}
	defer func() {
		if p := recover(); p != nil {
			err = hookError(calls.PanicFault(p))
		}
	}()
	if activity.IsActivity(ctx) && activity.GetInfo(ctx).Attempt > 1 {
		activity.GetLogger(ctx).Warn("repeating a hook", "hook", in.Name, "key", in.Key)
	}
	if err := hook(ctx, in); err != nil {
		return hookError(calls.FaultOf(calls.CauseOf(ctx, err)))
	}
	return nil
}

// hookError keeps the error's type, message and stack, and can be repeated.
func hookError(f *calls.Fault) error {
	text := f.Err.Message
	stack := strings.TrimRight(f.Err.Stack, "\n")
	above, last := "", stack
	if i := strings.LastIndexByte(stack, '\n'); i >= 0 {
		above, last = stack[:i], stack[i+1:]
	}
	if last != "" && strings.HasSuffix(text, last) { // a program's last line is in the message
		stack = above
	}
	if stack != "" {
		text += "\n" + stack
	}
	return sendable(temporal.NewApplicationError(text, f.Err.Type))
}

// knownHooks lists the hooks that there are, for messages.
func (a *Activities) knownHooks() string {
	if len(a.opts.Hooks) == 0 {
		return " (it has none)"
	}
	return " (it has " + strings.Join(slices.Sorted(maps.Keys(a.opts.Hooks)), ", ") + ")"
}
