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

// asHandler, in the environment of the slot of a Go handler, names the handler.
const asHandler = "STINT_TEST_HANDLER"

// processTests is what the test binary does as the slot of a Go handler, after it has called
// ChildMain without handlers.
func processTests() {
	fmt.Println("user code may print before it gives its handlers")
	h, ok := processHandlers[os.Getenv(asHandler)]
	if !ok {
		fmt.Fprintln(os.Stderr, "no such handler")
		os.Exit(9)
	}
	ChildMain(h)
}

var processHandlers = map[string]Handler{
	"each": Each(func(ctx context.Context, do string) (string, error) {
		fmt.Println("prints do no harm")
		switch do {
		case "environment":
			return fmt.Sprintf("%q %q %q", os.Getenv("STINT_TEST_SECRET"), os.Getenv("STINT_TEST_GIVEN"), os.Getenv("STINT_SLOT")), nil
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
	"sales":                 Each(describeSale),
	"records":               records,
	"records-encoding/json": Codec(EncodingJSON, records),
}

// inProcesses makes a handler that runs in processes of the test binary.
func (f *fixture) inProcesses(name string) Handler {
	f.options.Env = append(f.options.Env, asHandler+"="+name, raceOptions)
	return inProcesses(processHandlers[name], 0)
}

// K7: a Go handler in its own processes can do anything; it costs only its item.
func TestIsolate_Each(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Slots, f.limits.Attempts, f.limits.Timeout = 1, 1, 10*time.Minute
	o := f.run(f.inProcesses("each"), "in.txt", lines("a", "exit", "b", "error", "drop", "c", "panic", "scope", "scoped", "d"))
	require.Equal(t, lines(`"a!"`, `"b!"`, `"c!"`, `"scoped"`, `"d!"`), o.output)
	require.Equal(t, []int64{1, 3, 6, 7}, o.items())
	kinds := map[int64]job.Failure{}
	for _, failure := range o.failures {
		kinds[failure.Item] = failure
	}
	require.Equal(t, job.KindCrash, kinds[1].Kind)
	require.Contains(t, kinds[1].Error.Message, "exit 3: fatal error")
	require.Equal(t, job.KindError, kinds[3].Kind)
	require.Equal(t, "no such colour", kinds[3].Error.Message)
	require.Equal(t, "panic", kinds[6].Error.Type)
	require.Contains(t, kinds[6].Error.Stack, "slotserver_test.go")
	require.Equal(t, job.KindExpired, kinds[7].Kind)
	require.Contains(t, kinds[7].Error.Message, "slotserver_test.go#", "T3")
}

// K7: nor does a call that hangs cost more.
func TestIsolate_Hangs(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Slots, f.limits.Attempts, f.limits.Timeout = 1, 1, 3*time.Second
	o := f.run(f.inProcesses("each"), "in.txt", lines("a", "hang", "b"))
	require.Equal(t, lines(`"a!"`, `"b!"`), o.output)
	failure := o.only(t)
	require.Equal(t, job.KindExpired, failure.Kind)
	require.Contains(t, failure.Error.Stack, "goroutine", "T15: Go writes its stacks on SIGQUIT")
}

// W7, X4: the processes of a Go handler get the same scrubbed environment as other children: nothing of
// the worker's own that was not meant for them.
func TestIsolate_ScrubbedEnvironment(t *testing.T) { // not parallel: it changes the environment
	t.Setenv("STINT_TEST_SECRET", "key")
	t.Setenv("STINT_TEST_GIVEN", "given")
	f := setup(t)
	f.options.Slots, f.options.Env = 1, []string{"STINT_TEST_GIVEN"}
	o := f.run(f.inProcesses("each"), "in.txt", lines("environment"))
	require.Equal(t, lines(`"\"\" \"given\" \"0\""`), o.output)
}

func TestIsolate_Batch(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Slots, f.limits.Attempts = 2, 1
	f.batch = 4
	o := f.run(f.inProcesses("batch"), "in.txt", lines("a", "b", "exit", "c", "d", "e"))
	require.Equal(t, lines(`"a"`, `"b"`, `"c"`, `"d"`, `"e"`), o.output)
	require.Equal(t, job.KindCrash, o.only(t).Kind)
}
