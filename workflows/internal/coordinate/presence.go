package coordinate

import (
	"errors"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/workflows/internal/execute"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

const (
	// firstPatience is how long the job waits for a worker to take its first activity before it reports that
	// no worker serves its pool. It doubles up to maxPatience, and the activity is offered again: five events
	// each time, so ten years without a worker are 37,000 events. A worker that comes takes the activity at
	// once, however long it may still be offered.
	firstPatience = 5 * time.Second
	maxPatience   = 12 * time.Hour
)

// offer runs an activity, by run, until a worker has taken it. Meanwhile the report says that nobody serves
// the pool. ctx has the activity's options.
func (c *Coordinator) offer(ctx workflow.Context, run func(workflow.Context) error) error {
	for patience := firstPatience; ; patience = nextPatience(patience) {
		err := run(workflow.WithScheduleToStartTimeout(ctx, patience))
		if !notTaken(err) {
			c.State.Report.Unserved = false
			return err
		}
		c.State.Report.Unserved = true
		c.WakeUp()
	}
}

// lookForPools has the report say which of a pipeline's further pools nobody serves, until all of them are served. The job's own pool is
// offered its first activity.
func (c *Coordinator) lookForPools() {
	pools := slices.DeleteFunc(c.Spec().Pools(), func(pool string) bool { return pool == c.Spec().Pool })
	if len(pools) == 0 || c.In.State != nil && len(c.State.Report.UnservedPools) == 0 {
		return
	}
	workflow.Go(c.Ctx, func(ctx workflow.Context) {
		ctx = execute.IOOptions(ctx, c.Spec(), "look for workers of all pools")
		for in := (wire.ServedInput{Pools: pools, Known: c.State.Report.UnservedPools}); ; {
			result, err := execute.IO(ctx, wire.ActivityServed, in)
			if err != nil {
				result.Unserved = nil // nobody knows
			}
			in.Known, c.State.Report.UnservedPools = result.Unserved, result.Unserved
			c.WakeUp()
			if len(result.Unserved) == 0 {
				return
			}
		}
	})
}

func nextPatience(p time.Duration) time.Duration { return min(2*p, maxPatience) }

// notTaken reports whether no worker has taken an activity in time.
func notTaken(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout) && timeout.TimeoutType() == enums.TIMEOUT_TYPE_SCHEDULE_TO_START
}
