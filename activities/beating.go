package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
)

// beating heartbeats in the background until the returned function is called: for activities
// that vouch for their process only, since what they wait for (an input, the disk) may take long.
func beating(ctx context.Context) (stop func()) {
	if !activity.IsActivity(ctx) {
		return func() {}
	}
	timeout := activity.GetInfo(ctx).HeartbeatTimeout
	if timeout <= 0 {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
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
	}()
	return func() { close(done); <-ended }
}
