package watchdog_test

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-run/stint/internal/run/watchdog"
)

// A watchdog has workers reaped that hang. Whoever starts workers makes a client for each, with
// what it takes to end it.
func ExampleWatchdog() {
	events := make(chan watchdog.Event, 10)
	w := watchdog.New(watchdog.Options{
		Interval: 10 * time.Millisecond,
		OnEvent:  func(e watchdog.Event) { events <- e },
	})
	w.Start()

	ctx, end := context.WithCancelCause(context.Background())
	c := w.Client("worker 0", watchdog.ReaperFunc(func(_ context.Context, e watchdog.Expiry) error {
		end(e.Err())
		return nil
	}))
	defer c.Close()

	// The worker enters a scope and hangs.
	if err := c.Acquire("load model", 20*time.Millisecond); err != nil {
		fmt.Println(err)
		return
	}
	<-ctx.Done()
	fmt.Println(context.Cause(ctx))

	w.Stop()
	close(events)
	for e := range events {
		fmt.Println(e.Kind)
	}
	// Output:
	// load model took longer than 20ms
	// watchdog started
	// timer expired
	// reaped
	// watchdog stopped
}
