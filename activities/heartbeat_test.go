package activities

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// Activities that wait for an input or a disk heartbeat meanwhile.
func TestBeating(t *testing.T) {
	t.Parallel()
	requireBeats(t, func(enough <-chan struct{}) func(context.Context) error {
		return func(ctx context.Context) error {
			defer beating(ctx)()
			<-enough
			return nil
		}
	})
}

// A batch that waits for a place heartbeats meanwhile, and says so (K9). Before its first call the server hears that it
// waits no longer.
func TestProcess_BeatsWhileItWaitsForAPlace(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(10))
	batch := f.plan()[0]
	var over atomic.Int64
	beats := requireBeats(t, func(enough <-chan struct{}) func(context.Context) error {
		f.serve(&callstest.Handler{Each: func(c *calls.Call, item calls.Item) {
			if over.Load() != 1 {
				t.Error("an item begins before the server has heard of the end of the wait")
			}
			c.Answer.Line(item.Data)
		}}, Options{
			Slots: &late{calls.AnySlot{}, enough},
			Heartbeat: func(_ context.Context, token []byte, details ...any) error {
				require.NotEmpty(t, token)
				require.False(t, details[0].(wire.Hint).Waiting)
				require.Equal(t, batch.String(), details[0].(wire.Hint).Batch)
				over.Add(1)
				return nil
			},
		})
		return func(ctx context.Context) error {
			_, err := f.acts.Process(ctx, f.input(batch))
			return err
		}
	})
	require.EqualValues(t, 1, over.Load())
	for _, beat := range beats[:3] {
		require.Equal(t, wire.Hint{Waiting: true}, beat)
	}
}

// A batch that has a place at once has nothing to say of a wait.
func TestProcess_DoesNotWait(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(10))
	batch := f.plan()[0]
	f.serve(&callstest.Handler{}, Options{Heartbeat: func(context.Context, []byte, ...any) error {
		t.Error("a heartbeat without a wait")
		return nil
	}})
	env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	env.RegisterActivity(f.acts.Process)
	_, err := env.ExecuteActivity(f.acts.Process, f.input(batch))
	require.NoError(t, err)
}

// An execution that the server gives up while it waits for a place comes back, too.
func TestProcess_ComesBackFromItsWait(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(10))
	batch := f.plan()[0]
	back := make(chan wire.CameBack, 1)
	f.serve(&callstest.Handler{}, Options{
		Slots:  &asked{Slots: calls.AnySlot{}, err: context.Canceled},
		Signal: func(_ context.Context, _, _, _ string, b any) error { back <- b.(wire.CameBack); return nil },
	})
	env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	env.RegisterActivityWithOptions(func(ctx context.Context) error {
		ctx, giveUp := context.WithCancelCause(ctx)
		giveUp(serviceerror.NewNotFound("expired"))
		_, err := f.acts.Process(ctx, f.input(batch))
		require.ErrorIs(t, err, context.Canceled)
		select {
		case b := <-back:
			require.Equal(t, activity.GetInfo(ctx).ActivityID, b.Activity)
		case <-time.After(10 * time.Minute):
			t.Error("it has not been reported")
		}
		return nil
	}, activity.RegisterOptions{Name: "Waits"})
	_, err := env.ExecuteActivity("Waits")
	require.NoError(t, err)
}

// The result of a batch that has ended reaches the server also if that is away at first; if it has given the batch up
// meanwhile, the batch comes back. What the server refuses is left to the SDK.
func TestProcess_AnswersAServerThatWasAway(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		last     error // what the server says when it is back
		pending  bool
		cameBack bool
	}{
		{"and takes the result", nil, true, false},
		{"and has given the batch up", serviceerror.NewNotFound("expired"), true, true},
		{"and refuses the result", serviceerror.NewInvalidArgument("too large"), false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, "in.jsonl", jobtest.Lines(10))
			batch := f.plan()[0]
			back := make(chan wire.CameBack, 1)
			says := []error{serviceerror.NewUnavailable("away"), context.DeadlineExceeded, test.last}
			tries := 0
			f.serve(&callstest.Handler{}, Options{
				Observer: &endsWell{Observer: calls.Unobserved{}, t: t},
				Signal:   func(_ context.Context, _, _, _ string, b any) error { back <- b.(wire.CameBack); return nil },
				Complete: func(ctx context.Context, token []byte, result any, err error) error {
					require.NoError(t, ctx.Err())
					require.NoError(t, err)
					require.NotEmpty(t, token)
					require.EqualValues(t, batch.Count, result.(wire.ProcessResult).Totals.OK)
					tries++
					return says[tries-1]
				},
			})
			env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
			env.RegisterActivityWithOptions(func(ctx context.Context) error {
				result, err := f.acts.Process(ctx, f.input(batch))
				require.EqualValues(t, batch.Count, result.Totals.OK)
				require.Equal(t, len(says), tries)
				if !test.pending {
					require.NoError(t, err)
				} else {
					require.Equal(t, activity.ErrResultPending, err, "the SDK compares")
				}
				return nil
			}, activity.RegisterOptions{Name: "Ends"})
			_, err := env.ExecuteActivity("Ends")
			require.NoError(t, err)
			if test.cameBack {
				require.NotEmpty(t, (<-back).Activity)
			}
			require.Empty(t, back)
		})
	}
}

// endsWell wants batches to end without an error: who reports the result is nothing to count.
type endsWell struct {
	calls.Observer
	t *testing.T
}

func (o *endsWell) BatchEnded(_ string, err error) { require.NoError(o.t, err) }

// late has no place until enough is closed.
type late struct {
	calls.Slots
	enough <-chan struct{}
}

func (s *late) Take(ctx context.Context, o calls.Occupant) (calls.Slot, error) {
	<-s.enough
	return s.Slots.Take(ctx, o)
}

// K9: an item that is tried alone has its worker alone, as far as that knows of it.
func TestProcess_TakesItsSlotAlone(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(10))
	batch := f.plan()[0]
	slots := &asked{Slots: calls.AnySlot{}}
	f.serve(&callstest.Handler{}, Options{Slots: slots})
	for _, alone := range []bool{true, false} {
		in := f.input(batch)
		in.Take, in.Alone = 1, alone
		_, err := f.acts.Process(t.Context(), in)
		require.NoError(t, err)
		require.Equal(t, calls.Occupant{Job: f.ref.Job, Batch: batch.String(), Items: 1, Alone: alone, Priority: 3}, slots.occupant)
	}
}

// asked notes for what a slot was taken last, or should have been.
type asked struct {
	calls.Slots
	occupant calls.Occupant
	err      error // instead of a slot
}

func (s *asked) Take(ctx context.Context, o calls.Occupant) (calls.Slot, error) {
	if s.occupant = o; s.err != nil {
		return nil, s.err
	}
	return s.Slots.Take(ctx, o)
}

// requireBeats runs an activity that waits until enough is closed, which it is after three heartbeats. It returns what
// these, and those after them, have said.
func requireBeats(t *testing.T, of func(enough <-chan struct{}) func(context.Context) error) (said []wire.Hint) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	env.SetWorkerOptions(sdkworker.Options{DeadlockDetectionTimeout: time.Minute}) // on a busy machine it may take long to begin
	var mu sync.Mutex
	enough := make(chan struct{})
	env.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) {
		mu.Lock()
		defer mu.Unlock()
		var hint wire.Hint
		if details.HasValues() {
			require.NoError(t, details.Get(&hint))
		}
		if said = append(said, hint); len(said) == 3 {
			close(enough)
		}
	})
	env.RegisterActivityWithOptions(of(enough), activity.RegisterOptions{Name: "Waits"})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: 10 * time.Minute, HeartbeatTimeout: 4 * time.Second,
			RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
		}), "Waits").Get(ctx, nil)
	})
	require.NoError(t, env.GetWorkflowError())
	mu.Lock()
	defer mu.Unlock()
	return said
}

// Outside of an activity, and in one without a heartbeat timeout, there is nothing to do.
func TestBeating_NotAsked(t *testing.T) {
	t.Parallel()
	beating(t.Context())()
	env := activityEnv(t)
	quiet := func(ctx context.Context) error {
		beating(ctx)()
		return nil
	}
	env.RegisterActivity(quiet)
	_, err := env.ExecuteActivity(quiet)
	require.NoError(t, err)
}

// Heartbeats that are offered every quarter of the timeout are sent every half of it, whatever jitter there is; a long
// timeout has one for each quarter. So two of them are never as far apart as the timeout.
func TestHeartbeatThrottle(t *testing.T) {
	t.Parallel()
	for timeout, want := range map[time.Duration]time.Duration{
		time.Second: time.Second / 2, 30 * time.Second: 15 * time.Second, 24 * time.Hour: 6 * time.Hour,
	} {
		throttle, now := newHeartbeatThrottle(timeout), time.Now()
		var sent []time.Time
		for range 40 {
			if throttle.send(now) {
				sent = append(sent, now)
			}
			now = now.Add(timeout/4 + timeout/100)
		}
		require.Greater(t, len(sent), 10)
		for i := range sent[1:] {
			require.InDelta(t, want.Seconds(), sent[i+1].Sub(sent[i]).Seconds(), timeout.Seconds()/20, "%v", timeout)
		}
	}
}
