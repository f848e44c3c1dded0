package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/timers"
	"github.com/stretchr/testify/require"
)

// isolatedTests is what the test binary does as a slot of an isolated handler: like any program, it
// makes its worker.
func isolatedTests() {
	fmt.Println("user code may print before it makes its worker")
	h, ok := isolatedHandlers[os.Getenv("STINT_TEST_HANDLER")]
	if !ok {
		fmt.Fprintln(os.Stderr, "no such handler")
		os.Exit(9)
	}
	serveIsolated(h, Options{}.withDefaults())
}

var isolatedHandlers = map[string]Handler{
	"each": Each(func(ctx context.Context, do string) (string, error) {
		fmt.Println("prints do no harm")
		switch do {
		case "exit":
			fmt.Fprintln(os.Stderr, "fatal error")
			os.Exit(3)
		case "hang":
			select {}
		case "error":
			return "", errors.New("no such colour")
		case "panic":
			panic("oh")
		case "drop":
			return "", Drop
		case "scope":
			return do, timers.Do(ctx, 0, func(context.Context) error { select {} })
		case "scoped":
			return do, timers.Do(ctx, time.Hour, func(context.Context) error { return nil })
		}
		return do + "!", nil
	}),
	"stateful": Stateful(
		func(_ context.Context, s SlotInfo) (SlotInfo, error) { return s, nil },
		func(s SlotInfo, _ error) error { fmt.Fprintln(os.Stderr, "closed"); return nil },
		func(s SlotInfo) Handler {
			return Each(func(_ context.Context, do string) (string, error) {
				if do == "exit" {
					os.Exit(3)
				}
				return fmt.Sprintf("%s %d.%d %d", do, s.Slot, s.Incarnation, s.Seed), nil
			})
		}),
	"unopenable": Stateful(
		func(context.Context, SlotInfo) (int, error) { return 0, errors.New("no model") }, nil,
		func(int) Handler { return Each(func(_ context.Context, v string) (string, error) { return v, nil }) }),
	"batch": Batch(func(_ context.Context, all []string) ([]string, error) {
		for _, do := range all {
			if do == "exit" {
				os.Exit(3)
			}
		}
		return all, nil
	}),
}

// isolated makes a handler that runs in processes of the test binary.
func (f *fixture) isolated(name string) Handler {
	f.options.Env = append(f.options.Env, "STINT_TEST_HANDLER="+name)
	return isolate(isolatedHandlers[name], "pool")
}

// K7: a Go handler in processes of its own can do what it likes; only its item pays.
func TestIsolate_Each(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Slots, f.limits.Attempts, f.limits.Timeout = 1, 1, 500*time.Millisecond
	o := f.run(f.isolated("each"), "in.txt", lines("a", "exit", "b", "error", "drop", "c", "panic", "hang", "scope", "scoped", "d"))
	require.Equal(t, lines(`"a!"`, `"b!"`, `"c!"`, `"scoped"`, `"d!"`), o.output)
	require.Equal(t, []int64{1, 3, 6, 7, 8}, o.items())
	kinds := map[int64]job.Failure{}
	for _, failure := range o.failures {
		kinds[failure.Item] = failure
	}
	require.Equal(t, job.KindCrash, kinds[1].Kind)
	require.Contains(t, kinds[1].Error.Message, "exit status 3: fatal error")
	require.Equal(t, job.KindError, kinds[3].Kind)
	require.Equal(t, "no such colour", kinds[3].Error.Message)
	require.Equal(t, "panic", kinds[6].Error.Type)
	require.Contains(t, kinds[6].Error.Stack, "isolate_test.go")
	require.Equal(t, job.KindExpired, kinds[7].Kind)
	require.Contains(t, kinds[7].Error.Stack, "goroutine", "T15: Go tells its stacks on SIGQUIT")
	require.Equal(t, job.KindExpired, kinds[8].Kind)
	require.Contains(t, kinds[8].Error.Message, "isolate_test.go#", "T3")
}

func TestIsolate_Batch(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Slots, f.limits.Attempts = 2, 1
	f.batch = 4
	o := f.run(f.isolated("batch"), "in.txt", lines("a", "b", "exit", "c", "d", "e"))
	require.Equal(t, lines(`"a"`, `"b"`, `"c"`, `"d"`, `"e"`), o.output)
	require.Equal(t, job.KindCrash, o.only(t).Kind)
}
