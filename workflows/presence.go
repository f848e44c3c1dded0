package workflows

import (
	"errors"
	"time"

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
func (c *coordinator) offer(ctx workflow.Context, run func(workflow.Context) error) error {
	for patience := firstPatience; ; patience = nextPatience(patience) {
		err := run(workflow.WithScheduleToStartTimeout(ctx, patience))
		if !notTaken(err) {
			c.state.Report.Unserved = false
			return err
		}
		c.state.Report.Unserved = true
		c.wakeUp()
	}
}

func nextPatience(p time.Duration) time.Duration { return min(2*p, maxPatience) }

// notTaken reports whether no worker has taken an activity in time.
func notTaken(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout) && timeout.TimeoutType() == enums.TIMEOUT_TYPE_SCHEDULE_TO_START
}
