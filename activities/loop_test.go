package activities

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
)

// looping runs executions of a slot of a loop, with an output.
type looping struct {
	*fixture
	clock wire.Clock
	ran   map[int64]int // how often each tick was
	begun func(tick int64)
	put   func() error // before each manifest; nil: nothing
}

type putting struct {
	ledger.Access
	l *looping
}

func (a *putting) Open(ctx context.Context, location string) (store.Dir, error) {
	dir, err := a.Access.Open(ctx, location)
	return &puttingDir{dir, a.l}, err
}

type puttingDir struct {
	store.Dir
	l *looping
}

func (d *puttingDir) Put(ctx context.Context, key string, data []byte) error {
	if d.l.put != nil {
		if err := d.l.put(); err != nil {
			return err
		}
	}
	return d.Dir.Put(ctx, key, data)
}

// newLooping has ticks every second. It is for a test with its own clock.
func newLooping(t *testing.T) *looping {
	t.Helper()
	l := &looping{fixture: setup(t), ran: map[int64]int{}, begun: func(int64) {}, clock: wire.Clock{Every: time.Second, Keep: true}}
	h := &callstest.Handler{Size: calls.CallSize{Items: 1}, Each: func(c *calls.Call, item calls.Item) {
		var tick wire.Tick
		require.NoError(t, json.Unmarshal(item.Data, &tick))
		l.ran[tick.Tick]++
		l.begun(tick.Tick)
		c.Answer.Line(item.Data)
	}}
	access := l.serve(h, Options{}).opts.Access
	l.acts.Close()
	l.acts = New(Options{Access: &putting{access, l}, Handler: h})
	t.Cleanup(l.acts.Close)
	return l
}

// execute runs the slot for some time.
func (l *looping) execute(d time.Duration) (wire.ProcessResult, error) {
	in := l.input(wire.Batch{First: l.clock.Next, Count: wire.Endless - l.clock.Next}.Sealed())
	in.Clock, in.Slice = &l.clock, d
	return l.acts.Process(context.Background(), in)
}

// L5: an execution of a slot that fails, whatever with, says how far it has come: as far as its last part. Nothing of
// that is run again, and what is, is counted.
func TestProcess_FailedExecutionOfASlot(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct {
		put       func() error
		kind      string
		permanent bool
	}{
		"outage":    {func() error { return &store.OpError{Op: "writing", Where: "s3://bucket/key", Err: syscall.ECONNRESET} }, job.ErrorOutage, false},
		"permanent": {func() error { return &store.OpError{Op: "writing", Where: "s3://bucket/key", Err: fs.ErrPermission} }, job.ErrorOutput, true},
		"defect":    {func() error { panic("a defect") }, "DefectError", false},
		"cancelled": {func() error { return context.Canceled }, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLooping(t)
				l.begun = func(tick int64) {
					if tick == 27 {
						l.put = fault.put
					}
				}
				_, err := l.execute(time.Hour)
				var hint wire.Hint
				var app *temporal.ApplicationError
				var cancelled *temporal.CanceledError
				switch {
				case errors.As(err, &app):
					require.Same(t, err, app, "workflows see what is at the top") //nolint:testifylint
					require.Equal(t, fault.kind, app.Type(), "%v", err)
					require.Equal(t, fault.permanent, app.NonRetryable())
					require.NoError(t, app.Details(&hint))
				default:
					require.ErrorAs(t, err, &cancelled)
					require.ErrorIs(t, err, context.Canceled)
					require.Equal(t, name, "cancelled")
					require.NoError(t, cancelled.Details(&hint))
				}
				at := hint.Clock
				require.NotNil(t, at)
				require.EqualValues(t, len(l.ran), at.Doubt, "all that it has begun")
				require.Less(t, at.Next, at.Doubt)
				require.Equal(t, at.Next, at.Stats.OK)
				require.Len(t, l.gather(at.Head), 2, "two parts of ten seconds")

				l.put, l.begun, l.clock.LoopSlot = nil, func(int64) {}, *at
				result, err := l.execute(30 * time.Second)
				require.NoError(t, err)
				require.Equal(t, at.Doubt-at.Next, result.Clock.Stats.Repeated)
				var results strings.Builder
				for _, e := range l.gather(result.Clock.Head) {
					results.WriteString(l.output(e.Entry))
				}
				require.EqualValues(t, result.Clock.Next, strings.Count(results.String(), "\n"), "each tick has one result")
				for tick := range result.Clock.Next {
					want := 1
					if tick >= at.Next && tick < at.Doubt {
						want = 2
					}
					require.Equal(t, want, l.ran[tick], "tick %d", tick)
				}
			})
		})
	}
}

// A line that waits for the next tick is not locked: whoever else uses it does not wait as long.
func TestLine_WaitsForATickUnlocked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLooping(t)
		l.clock.Every = time.Hour
		in := l.input(wire.Batch{Count: wire.Endless}.Sealed())
		in.Clock = &l.clock
		slot, err := calls.AnySlot{}.Take(t.Context(), calls.Occupant{})
		require.NoError(t, err)
		e := &execution{acts: l.acts, in: in, ctx: t.Context(), slot: slot}
		e.watch = calls.StartWatch(t.Context(), calls.WatchLimits{})
		defer e.watch.Stop()
		require.NoError(t, e.open())
		defer e.close()
		e.line.enter()
		first := e.line.take()
		first.answer.Line([]byte("x"))
		e.line.finish(first, &calls.Caller{}, nil)
		second := make(chan *assignment)
		go func() { second <- e.line.take() }()
		synctest.Wait()
		require.True(t, e.line.mu.TryLock())
		require.False(t, e.line.available(), "one at a time waits")
		e.line.mu.Unlock()
		began := time.Now()
		require.NotNil(t, <-second)
		require.Equal(t, time.Hour, time.Since(began))
	})
}

// An execution that has not even opened its store knows nothing more than the one before.
func TestProcess_FailedBeforeTheSlotBegins(t *testing.T) {
	t.Parallel()
	f := setup(t)
	access := f.beFlaky()
	access.out.Store(true)
	in := f.input(wire.Batch{Count: wire.Endless}.Sealed())
	in.Clock = &wire.Clock{Every: time.Second, Keep: true}
	_, err := f.acts.Process(t.Context(), in)
	requireOutage(t, err)
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	require.False(t, app.HasDetails())
}
