package activities

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
)

// stopAt is a handler that answers n items, tells the test, and then none until the batch ends.
func stopAt(n int, reached chan<- struct{}) *callstest.Handler {
	done := 0
	return &callstest.Handler{As: calls.Traits{Form: calls.Lines}, Size: calls.CallSize{Items: 3}, Do: func(c *calls.Call) error {
		for _, item := range c.Items {
			if done == n {
				close(reached)
				for !c.Ending() {
					c.Wait(30)
				}
				return nil
			}
			done++
			c.Answer.Line(item.Data)
		}
		return nil
	}}
}

// requireRest fails unless what was done and the rest are the batch, and the rest gives the others.
func (f *fixture) requireRest(batch wire.Batch, result wire.ProcessResult, done int64) {
	f.t.Helper()
	e := result.Entry
	require.Equal(f.t, done, e.Count)
	require.Equal(f.t, done, e.OK+e.Failed)
	require.Equal(f.t, batch.First, e.First)
	require.Equal(f.t, batch.Offset, e.Offset)
	require.NotNil(f.t, result.Rest)
	require.Equal(f.t, batch.After(e.Count, e.Length).WithDigest(result.Rest.Digest), *result.Rest)
	require.Equal(f.t, e.Length, result.Totals.InputBytes)

	f.serve(&callstest.Handler{As: calls.Traits{Form: calls.Lines}}, Options{})
	rest := f.process(*result.Rest)
	require.Nil(f.t, rest.Rest)
	whole := f.process(batch)
	require.Equal(f.t, f.output(whole.Entry), f.output(e)+f.output(rest.Entry), "nothing twice, nothing missed")
}

// S11: a batch that is stopped returns what it has finished, and the rest.
func TestProcess_StopGivesTheRest(t *testing.T) {
	t.Parallel()
	for _, done := range []int{0, 1, 2, 3, 4, 49} {
		t.Run(fmt.Sprint(done), func(t *testing.T) {
			t.Parallel()
			f := setup(t, "in.txt", strings.Repeat("\n a line\r\n\n", 50))
			f.spec.BatchItems = 50
			reached := make(chan struct{})
			f.serve(stopAt(done, reached), Options{})
			batch := f.plan()[0]
			ctx, stop := context.WithCancel(t.Context())
			go func() { <-reached; stop() }()
			in := f.input(batch)
			in.Grace = time.Hour
			result, err := f.acts.Process(ctx, in)
			require.NoError(t, err)
			f.requireRest(batch, result, int64(done))
		})
	}
}

// A stop that comes when all is done changes nothing.
func TestProcess_StopAtTheVeryEnd(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(10))
	f.spec.BatchItems = 10
	ctx, stop := context.WithCancel(t.Context())
	f.serve(&callstest.Handler{Do: func(c *calls.Call) error {
		defer stop()
		return callstest.Echo(c)
	}}, Options{})
	result, err := f.acts.Process(ctx, f.input(f.plan()[0]))
	require.NoError(t, err)
	require.Nil(t, result.Rest)
	require.Equal(t, jobtest.Lines(10), f.output(result.Entry))
}

// Stopped while invalid items surround the one in hand.
func TestProcess_StopBetweenInvalidItems(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", "bad\n1\nbad\n3\nbad\n")
	f.spec.BatchItems = 5
	reached := make(chan struct{})
	h := stopAt(1, reached)
	h.As.Form, h.Size.Items = calls.Lines, 100
	f.serve(h, Options{})
	batch := f.plan()[0]
	ctx, stop := context.WithCancel(t.Context())
	go func() { <-reached; stop() }()
	result, err := f.acts.Process(ctx, f.input(batch))
	require.NoError(t, err)
	require.EqualValues(t, 1, result.Entry.OK)
	require.EqualValues(t, 2, result.Entry.Failed, "those before the first item without an outcome")
	f.requireRest(batch, result, 3)
}

// The rest of a spooled input can be read while the batch stops.
func TestProcess_StopOfSpooledInput(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.spec.Files.Input, f.spec.BatchItems = []string{"-"}, 50
	reached := make(chan struct{})
	f.serve(stopAt(10, reached), Options{Stdin: strings.NewReader(strings.Repeat("a line\n", 50))})
	batch := f.plan()[0]
	ctx, stop := context.WithCancel(t.Context())
	go func() { <-reached; stop() }()
	result, err := f.acts.Process(ctx, f.input(batch))
	require.NoError(t, err)
	f.requireRest(batch, result, 10)
}

func TestProcess_SliceGivesTheRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, "in.jsonl", jobtest.Lines(100))
		f.spec.BatchItems = 100
		f.serve(&callstest.Handler{Size: calls.CallSize{Items: 5}, Each: func(c *calls.Call, item calls.Item) {
			time.Sleep(10 * time.Second)
			c.Answer.Line(item.Data)
		}}, Options{})
		batch := f.plan()[0]
		in := f.input(batch)
		in.Slice = time.Minute
		began := time.Now()
		result, err := f.acts.Process(t.Context(), in)
		require.NoError(t, err)
		require.Equal(t, 100*time.Second, time.Since(began), "the call in hand is finished")
		require.Equal(t, 100*time.Second, result.Totals.Busy)
		f.requireRest(batch, result, 10)
	})
}

// Without a slice and without a stop a batch runs for as long as it takes.
func TestProcess_NoSlice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, "in.jsonl", jobtest.Lines(10))
		f.spec.BatchItems = 10
		f.serve(&callstest.Handler{Each: func(c *calls.Call, item calls.Item) {
			time.Sleep(10 * time.Minute)
			c.Answer.Line(item.Data)
		}}, Options{})
		require.Nil(t, f.process(f.plan()[0]).Rest)
	})
}

// S2: a call that does not end within the grace is cut off, and its items are in the rest.
func TestProcess_HardEnd(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		answer func(c *calls.Call, ctx context.Context) error
	}{
		{"with the context's error", func(_ *calls.Call, ctx context.Context) error { return ctx.Err() }},
		{"with its cause", func(_ *calls.Call, ctx context.Context) error { return context.Cause(ctx) }},
		{"with too few answers", func(c *calls.Call, _ context.Context) error {
			c.Answer.Line([]byte(`"one"`))
			return nil
		}},
		{"with its own error", func(*calls.Call, context.Context) error { return errors.New("signal: killed") }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := setup(t, "in.jsonl", jobtest.Lines(20))
				f.spec.BatchItems = 20
				ctx, stop := context.WithCancel(t.Context())
				h := &callstest.Handler{Size: calls.CallSize{Items: 5}}
				h.Do = func(c *calls.Call) error {
					if c.Items[0].Ordinal < 5 {
						return callstest.Echo(c)
					}
					callCtx := c.Begin()
					stop()
					<-callCtx.Done()
					return test.answer(c, callCtx)
				}
				f.serve(h, Options{})
				batch := f.plan()[0]
				in := f.input(batch)
				in.Grace = 10 * time.Second
				began := time.Now()
				result, err := f.acts.Process(ctx, in)
				require.NoError(t, err)
				require.Equal(t, 10*time.Second, time.Since(began))
				require.Zero(t, result.Entry.Failed, "being cut off is not the items' fault")
				require.Zero(t, result.Totals.Retries)
				require.Equal(t, 2, h.Calls(), "nothing is retried")
				done := int64(5)
				if test.name == "with too few answers" {
					done = 6 // what it has answered counts
				}
				require.Equal(t, done, result.Entry.Count)
				require.Equal(t, batch.After(done, result.Entry.Length).WithDigest(result.Rest.Digest), *result.Rest)
			})
		})
	}
}

// activityEnv runs activities as a worker does.
func activityEnv(t *testing.T) *testsuite.TestActivityEnvironment {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	return suite.NewTestActivityEnvironment()
}

// S15: a worker that drains gets the rest, as an answer and not as an error.
func TestProcess_DrainGivesTheRest(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.txt", strings.Repeat("a line\n", 50))
	f.spec.BatchItems = 50
	reached := make(chan struct{})
	f.serve(stopAt(10, reached), Options{Drain: time.Hour})
	batch := f.plan()[0]
	env := activityEnv(t)
	env.RegisterActivity(f.acts.Process)
	stop := make(chan struct{})
	env.SetWorkerStopChannel(stop)
	go func() { <-reached; close(stop) }()
	value, err := env.ExecuteActivity(f.acts.Process, f.input(batch))
	require.NoError(t, err)
	var result wire.ProcessResult
	require.NoError(t, value.Get(&result))
	f.requireRest(batch, result, 10)
}

// The stop's own deadline is found through the workflow that the batch belongs to.
func TestProcess_AsksForTheNotice(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(10))
	f.spec.BatchItems = 10
	began, asked := make(chan struct{}), make(chan string, 1)
	h := &callstest.Handler{Do: func(c *calls.Call) error {
		close(began)
		<-c.Begin().Done()
		return nil
	}}
	f.serve(h, Options{Notice: func(ctx context.Context, id, run string) (wire.StopNotice, bool) {
		if ctx.Err() != nil {
			return wire.StopNotice{}, false // it must be possible to ask although the activity is cancelled
		}
		asked <- id + " " + run
		return wire.StopNotice{Deadline: time.Now()}, true
	}})
	batch := f.plan()[0]
	env := activityEnv(t)
	var workflow string
	stopped := func(ctx context.Context, in wire.ProcessInput) (wire.ProcessResult, error) {
		execution := activity.GetInfo(ctx).WorkflowExecution
		workflow = execution.ID + " " + execution.RunID
		ctx, cancel := context.WithCancel(ctx)
		go func() { <-began; cancel() }()
		return f.acts.Process(ctx, in)
	}
	env.RegisterActivityWithOptions(stopped, activity.RegisterOptions{Name: "Stopped"})
	in := f.input(batch)
	in.Grace = time.Hour
	value, err := env.ExecuteActivity("Stopped", in)
	require.NoError(t, err)
	require.Equal(t, workflow, <-asked)
	var result wire.ProcessResult
	require.NoError(t, value.Get(&result))
	require.NotNil(t, result.Rest)
}

// Told to end before it has begun, a batch does nothing; the leg takes the error as a rest.
func TestProcess_StoppedBeforeItBegins(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(10))
	h := &callstest.Handler{}
	f.serve(h, Options{})
	batch := f.plan()[0]
	f.serve(h, Options{})
	ctx, stop := context.WithCancel(t.Context())
	stop()
	result, err := f.acts.Process(ctx, f.input(batch))
	if err == nil {
		require.Equal(t, batch, *result.Rest)
	}
	require.Zero(t, result.Entry.Count)
	require.Zero(t, h.Calls())
	require.Empty(t, f.keys("run-1/parts/"))
}
