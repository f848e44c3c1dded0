package timers_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-run/stint/timers"
)

// A handler guards the step that may hang: if it takes longer than two seconds, its worker is
// reaped and the item retried elsewhere. The worker has put its client into the context.
func Example() {
	handler := func(ctx context.Context, photo string) (string, error) {
		var thumb string
		err := timers.Do(ctx, 2*time.Second, func(context.Context) error {
			thumb = "small " + photo // or a library that sometimes does not return
			return nil
		})
		return thumb, err
	}

	ctx, done := asWorker()
	defer done()
	fmt.Println(handler(ctx, "cat.jpg"))
	// Without a worker, nobody would end what hangs: the step does not run.
	_, err := handler(context.Background(), "dog.jpg")
	fmt.Println(errors.Is(err, timers.ErrNoClient))
	// Output:
	// small cat.jpg <nil>
	// true
}

// Expires is for what does not fit into a function: the timer is held until release is called.
func ExampleExpires() {
	ctx, done := asWorker()
	defer done()

	release, err := timers.Expires(ctx, time.Minute, timers.Named("warm up"))
	if err != nil {
		fmt.Println("not guarded:", err)
		return
	}
	defer release()

	c, _ := timers.FromContext(ctx)
	fmt.Println("timers held:", c.Held())
	// Output:
	// timers held: 1
}

// A watchdog has workers reaped that hang. Whoever starts workers makes a client for each, with
// what it takes to end it.
func ExampleWatchdog() {
	events := make(chan timers.Event, 10)
	w, err := timers.New(timers.Options{
		Interval: 10 * time.Millisecond,
		OnEvent:  func(e timers.Event) { events <- e },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	w.Start()

	ctx, end := context.WithCancelCause(context.Background())
	c := w.Client("worker 0", timers.ReaperFunc(func(_ context.Context, e timers.Expiry) error {
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

// The process of another program is ended by its pid, but never one that has got the pid since.
func ExampleNewProcessReaper() {
	const nobody = 1 << 30
	_, err := timers.NewProcessReaper(nobody, timers.ProcessOptions{Patience: time.Second})
	fmt.Println(err != nil)
	// Output:
	// true
}

// asWorker is what a worker does for its handlers.
func asWorker() (ctx context.Context, done func()) {
	w, err := timers.New(timers.Options{})
	if err != nil {
		panic(err)
	}
	w.Start()
	c := w.Client("worker 0", timers.ReaperFunc(func(context.Context, timers.Expiry) error { return nil }))
	return timers.NewContext(context.Background(), c), func() { c.Close(); w.Stop() }
}
