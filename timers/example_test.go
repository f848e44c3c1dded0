package timers_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-run/stint/internal/run/watchdog"
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
	fmt.Println(errors.Is(err, timers.ErrNoGuard))
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

	fmt.Println("what may hang is guarded")
	// Output:
	// what may hang is guarded
}

// asWorker is what a worker does for its handlers.
func asWorker() (ctx context.Context, done func()) {
	w := watchdog.New(watchdog.Options{})
	w.Start()
	c := w.Client("worker 0", watchdog.ReaperFunc(func(context.Context, watchdog.Expiry) error { return nil }))
	return timers.NewContext(context.Background(), c), func() { c.Close(); w.Stop() }
}
