package activities

import (
	"context"
	"time"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/stall"
	"github.com/stint-run/stint/internal/trap"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/activity"
)

// carryOut does the work of an activity that heartbeats for as long as its process lives. The error says to workflows what follows.
func carryOut[T any](ctx context.Context, patience time.Duration, work func(context.Context) (T, error)) (T, error) {
	defer beating(ctx)()
	return patiently(ctx, patience, work)
}

// patiently does the work of an activity. It gives the work up if an operation on files takes longer than
// patience: nothing can interrupt that, so it and the work may go on, and a second execution is beside it. The error
// is one that says to workflows what follows.
func patiently[T any](ctx context.Context, patience time.Duration, work func(context.Context) (T, error)) (T, error) {
	meter := stall.NewMeter()
	ctx = stall.With(ctx, meter)
	var result T
	done := trap.Go("doing an activity", func() (err error) {
		result, err = work(ctx)
		return err
	})
	looks := time.NewTicker(max(patience/8, time.Millisecond))
	defer looks.Stop()
	for {
		select {
		case err := <-done:
			return result, ledger.Raised(err)
		case <-looks.C:
			if stuck := meter.GiveUp(patience); stuck != nil {
				var none T
				return none, ledger.StoreError(job.ErrorOutput, stuck)
			}
		}
	}
}

// thrift leaves out heartbeats that would say little. The SDK does so too, but its measure is the worker's, and the slots of
// loops need theirs every second.
type thrift struct {
	least time.Duration // between two heartbeats
	last  time.Time
}

// newThrift sends one heartbeat, and further ones when four tenths of the timeout, or a minute, are over: offered every quarter, that
// is each second one.
func newThrift(timeout time.Duration) *thrift { return &thrift{least: min(timeout*4/10, time.Minute)} }

// send reports whether a heartbeat is sent now.
func (t *thrift) send(now time.Time) bool {
	if !t.last.IsZero() && now.Sub(t.last) < t.least {
		return false
	}
	t.last = now
	return true
}

// beating heartbeats in the background until the returned function is called: for activities
// whose heartbeats say only that their process lives, since what they wait for (an input, the disk) may take long.
func beating(ctx context.Context) (stop func()) {
	if !activity.IsActivity(ctx) {
		return func() {}
	}
	timeout := activity.GetInfo(ctx).HeartbeatTimeout
	if timeout <= 0 {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	failed := func(err error) { activity.GetLogger(ctx).Error("no more heartbeats", "error", err) } // so the activity will expire
	trap.Watched("heartbeating", failed, func() {
		defer close(ended)
		ticks := time.NewTicker(timeout / 4)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
				activity.RecordHeartbeat(ctx)
			case <-done:
				return
			}
		}
	})
	return func() { close(done); <-ended }
}
