package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// diary notes what happens to the values of a stateful handler.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) sorted() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(slices.Values(d.lines))
}

// counting is a handler whose slots number their calls.
func (d *diary) counting(release <-chan struct{}) Handler {
	return Stateful(
		func(_ context.Context, s SlotInfo) (*SlotInfo, error) {
			d.note("open %d.%d seed %d", s.Slot, s.Incarnation, s.Seed)
			return &s, nil
		},
		func(s *SlotInfo, cause error) error {
			d.note("close %d.%d: %v", s.Slot, s.Incarnation, cause)
			return nil
		},
		func(s *SlotInfo) Handler {
			return Each(func(_ context.Context, do string) (string, error) {
				if do == "hang" {
					<-release
				}
				return fmt.Sprintf("%s in %d.%d", do, s.Slot, s.Incarnation), nil
			})
		})
}

// W5, W2: Open runs once per incarnation before any call, Close once after the last.
func TestStateful(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.options.Slots, f.options.Seed, f.batch, f.limits.Timeout = 1, 7, 1000, time.Second
		release := make(chan struct{})
		var d diary
		service, err := f.open(d.counting(release))
		require.NoError(t, err)
		require.NoError(t, service.start(t.Context()))
		require.Equal(t, []string{"open 0.0 seed 7"}, d.sorted())
		o := f.flowOf("in.txt", lines("a", "hang", "b"))
		require.Equal(t, lines(`"a in 0.0"`, `"b in 0.1"`), o.output)
		service.Close()
		service.Close()
		require.Equal(t, []string{"close 0.1: <nil>", "open 0.0 seed 7", "open 0.1 seed 7"}, d.sorted())
		close(release)
	})
}

// W4: if one slot's opening fails, or panics, those already open are closed and its error is reported.
func TestStateful_StartIsAllOrNothing(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("no device") },
		"panic": func() error { panic("no device") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.options.Slots = 3
			var d diary
			service, err := f.open(Stateful(
				func(_ context.Context, s SlotInfo) (int, error) {
					if s.Slot == 2 {
						return 0, fail()
					}
					return s.Slot, nil
				},
				func(slot int, cause error) error { d.note("close %d %t", slot, cause != nil); return nil },
				func(int) Handler { return Each(func(_ context.Context, v string) (string, error) { return v, nil }) }))
			require.NoError(t, err)
			err = service.start(t.Context())
			require.ErrorContains(t, err, "slot 2: opening: ")
			require.ErrorContains(t, err, "no device")
			require.Equal(t, []string{"close 0 true", "close 1 true"}, d.sorted())
		})
	}
}

func TestStateful_NotGo(t *testing.T) {
	t.Parallel()
	f := setup(t)
	service, err := f.open(Stateful(
		func(context.Context, SlotInfo) (int, error) { return 0, nil }, nil, func(int) Handler { return Exec("cat") }))
	require.NoError(t, err)
	require.ErrorContains(t, service.start(t.Context()), "must be made by Each, Batch or Preprocess")
}

// K7, W5: with Processes, the value lives in the slot's process.
func TestStateful_Isolated(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Slots, f.options.Seed, f.batch, f.limits.Attempts = 1, 5, 1000, 1
	o := f.run(f.inProcesses("stateful"), "in.txt", lines("a", "exit", "b"))
	require.Regexp(t, `^"a 0\.0 5"\n"b 0\.[1-9] 5"\n$`, o.output)
	require.Len(t, o.failures, 1)
}

// W3: an error of opening in the slot's process is an error of the start.
func TestStateful_IsolatedStartFails(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Slots = 2
	service, err := f.open(f.inProcesses("unopenable"))
	require.NoError(t, err)
	require.ErrorContains(t, service.start(t.Context()), "no model")
}
