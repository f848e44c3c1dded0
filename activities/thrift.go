package activities

import (
	"context"
	"time"

	"github.com/stint-run/stint/internal/trap"
	"go.temporal.io/sdk/activity"
)

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

// beat returns what offers heartbeats: it sends one if the server expects one, or if there is news.
func (e *execution) beat(timeout time.Duration, send func()) func(now time.Time) {
	thrift, offered := newThrift(timeout), e.began
	return func(now time.Time) {
		expected := false
		if now.Sub(offered) >= timeout/4 {
			offered, expected = now, thrift.send(now)
		}
		if e.acts.news.due(e.in.Ref.Run, now) || expected {
			thrift.last = now
			send()
		}
	}
}
