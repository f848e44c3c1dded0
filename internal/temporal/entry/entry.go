// Package entry is how tasks from Temporal enter workflows and activities: it reads their input. A worker that cannot
// read it, because it lacks the key that has encrypted it, then fails no job. The SDK reads the input of functions that
// are registered by name itself, and a workflow whose input cannot be read fails for good.
package entry

import (
	"context"
	"fmt"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// Workflows are workflows by the names of their types.
type Workflows map[string]func(workflow.Context, converter.EncodedValues) (any, error)

// Workflow makes an entry of a workflow. If its input cannot be read, or follows a version of the logic that this program
// does not know (somebody has sent it to the wrong task queue), it panics: the workflow's task then fails, and
// the server offers it again, to other workers too.
func Workflow[In, Out any](fn func(workflow.Context, In) (Out, error)) func(workflow.Context, converter.EncodedValues) (any, error) {
	return func(ctx workflow.Context, args converter.EncodedValues) (any, error) {
		var in In
		if err := args.Get(&in); err != nil {
			panic(unreadable(err))
		}
		if of, ok := any(&in).(interface{ FollowedLogic() int }); ok && !wire.Knows(of.FollowedLogic()) {
			panic(fmt.Sprintf("%s: the worker has stint %s", wire.NeedsRelease(of.FollowedLogic()), wire.Release(wire.LogicVersion)))
		}
		return fn(ctx, in)
	}
}

// Watcher is called when a workflow has come to its end, with its input and its error, unless it is replayed.
type Watcher func(ctx workflow.Context, args converter.EncodedValues, err error)

// Watched returns the workflows with a watcher; nil: there is none.
func (w Workflows) Watched(by Watcher) Workflows {
	if by == nil {
		return w
	}
	watched := Workflows{}
	for name, fn := range w {
		watched[name] = func(ctx workflow.Context, args converter.EncodedValues) (any, error) {
			result, err := fn(ctx, args)
			if !workflow.IsReplaying(ctx) {
				by(ctx, args, err)
			}
			return result, err
		}
	}
	return watched
}

// Register has the worker run the workflows.
func (w Workflows) Register(r worker.WorkflowRegistry) {
	r.RegisterDynamicWorkflow(func(ctx workflow.Context, args converter.EncodedValues) (any, error) {
		name := workflow.GetInfo(ctx).WorkflowType.Name
		fn := w[name]
		if fn == nil {
			panic(fmt.Sprintf("%s is not a workflow of stint", name))
		}
		return fn(ctx, args)
	}, workflow.DynamicRegisterOptions{})
}

// Activities are activities by the names of their types.
type Activities map[string]func(context.Context, converter.EncodedValues) (any, error)

// Offer adds an activity. If its input cannot be read that is an outage: it costs no attempt, and is waited out.
func Offer[In, Out any](all Activities, name wire.Activity[In, Out], fn func(context.Context, In) (Out, error)) {
	all[string(name)] = func(ctx context.Context, args converter.EncodedValues) (any, error) {
		var in In
		if err := args.Get(&in); err != nil {
			err = unreadable(err)
			return nil, temporal.NewApplicationErrorWithCause(err.Error(), job.ErrorOutage, err)
		}
		return fn(ctx, in)
	}
}

// OfferAction adds an activity that has no result.
func OfferAction[In any](all Activities, name wire.Activity[In, any], fn func(context.Context, In) error) {
	Offer(all, name, func(ctx context.Context, in In) (any, error) { return nil, fn(ctx, in) })
}

// Register has the worker run the activities.
func (a Activities) Register(r worker.ActivityRegistry) {
	r.RegisterDynamicActivity(func(ctx context.Context, args converter.EncodedValues) (any, error) {
		name := activity.GetInfo(ctx).ActivityType.Name
		fn := a[name]
		if fn == nil {
			return nil, fmt.Errorf("%s is not an activity of stint on this queue", name)
		}
		return fn(ctx, args)
	}, activity.DynamicRegisterOptions{})
}

func unreadable(err error) error {
	return fmt.Errorf("a worker cannot read its input; start all workers with the keys of the codec (--codec-key-file): %w", err)
}
