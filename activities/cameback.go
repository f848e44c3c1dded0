package activities

import (
	"context"
	"errors"
	"time"

	"github.com/stint-run/stint/internal/backoff"
	"github.com/stint-run/stint/internal/trap"
	"github.com/stint-run/stint/internal/wire"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
)

const (
	// cameBackLimit is how long a worker tries to report that an execution has come back.
	cameBackLimit = time.Hour
	// cameBackPause is the time between two tries: the workflow should hear of it soon after the server is back.
	cameBackPause = time.Second
)

// cutOff reports whether an activity was cancelled because its heartbeats do not reach the server.
func cutOff(ctx context.Context) bool {
	var refused serviceerror.ServiceError
	return errors.As(context.Cause(ctx), &refused) && !disowned(ctx)
}

// cameBack reports an execution that the server has given up, or may have given up, although its worker has it alive: the server or the
// connection was away for longer than the expiry, or this worker was frozen. It returns at once, and the report is made when the server can be
// reached. An execution whose batch had kept it from heartbeating is not reported: that one hung.
func (e *execution) cameBack() {
	report := e.acts.opts.CameBack
	if report == nil || !activity.IsActivity(e.ctx) || !disowned(e.ctx) && !cutOff(e.ctx) {
		return
	}
	info := activity.GetInfo(e.ctx)
	if e.watch != nil && !e.watch.Alive(info.HeartbeatTimeout) {
		return
	}
	back := wire.CameBack{Activity: info.ActivityID}
	if slot := e.slotOfLoop.Load(); slot != nil {
		at := slot.Broken()
		at.Doubt = max(at.Doubt, at.Next)
		back.Clock = &at
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), cameBackLimit)
	failed := func(err error) { activity.GetLogger(ctx).Error("reporting that a batch is alive", "error", err) }
	trap.Watched("reporting that a batch is alive", failed, func() {
		defer cancel()
		for ctx.Err() == nil {
			err := report(ctx, info.WorkflowExecution.ID, info.WorkflowExecution.RunID, back)
			var gone *serviceerror.NotFound
			if err == nil || errors.As(err, &gone) || !backoff.Wait(cameBackPause, e.acts.closed) {
				return
			}
		}
	})
}
