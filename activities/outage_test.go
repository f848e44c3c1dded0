package activities

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/stint-run/stint/internal/base/stall"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// flaky is an access on which reading of inputs and stores fails while it is out of reach: at once, or after
// so many bytes of an input.
type flaky struct {
	ledger.Access
	out   atomic.Bool
	after atomic.Int64
}

var errReset error = &store.OpError{Op: "reading", Where: "s3://bucket/key", Err: syscall.ECONNRESET}

func (a *flaky) Open(ctx context.Context, location string) (store.Dir, error) {
	if a.out.Load() && a.after.Load() == 0 {
		return nil, errReset
	}
	return a.Access.Open(ctx, location)
}

func (a *flaky) OpenInput(ctx context.Context, url string, offset, length int64) (io.ReadCloser, error) {
	r, err := a.Access.OpenInput(ctx, url, offset, length)
	if err != nil || !a.out.Load() {
		return r, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(r, a.after.Load()), broken{}), r}, nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errReset }

// beFlaky has a fixture's data go out of reach whenever the test says so.
func (f *fixture) beFlaky() *flaky {
	f.serve(&callstest.Handler{As: calls.Traits{Form: calls.Lines}}, Options{})
	access := &flaky{Access: f.acts.opts.Access}
	f.acts.Close()
	f.acts = New(Options{Access: access, Handler: &callstest.Handler{As: calls.Traits{Form: calls.Lines}}})
	f.t.Cleanup(f.acts.Close)
	return access
}

func requireOutage(t *testing.T, err error) {
	t.Helper()
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	require.Equal(t, job.ErrorOutage, app.Type(), "%v", err)
	require.False(t, app.NonRetryable())
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.Same(t, err, app, "workflows see what is at the top") //nolint:testifylint
}

// Whatever activity meets a store or a host that is out of reach: it says so, and can be repeated.
func TestOutage_OfTheStoreAndOfInputs(t *testing.T) {
	t.Parallel()
	for _, after := range []int64{0, 1, 90} {
		f := setup(t, "in.txt", strings.Repeat("line\n", 50))
		access := f.beFlaky()
		access.after.Store(after)
		lost := func(do func() error) {
			t.Helper()
			access.out.Store(true)
			requireOutage(t, do())
			access.out.Store(false)
		}
		if after < 3 { // the head is read, and no more
			lost(func() error {
				_, err := f.acts.Plan(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 10})
				return err
			})
		}
		batches := f.plan()
		lost(func() error { _, err := f.acts.Process(t.Context(), f.input(batches[0])); return err })
		entries := f.processAll(batches)
		if after == 0 {
			lost(func() error {
				_, err := f.acts.Commit(t.Context(), wire.CommitInput{Ref: f.ref, Entries: entries})
				return err
			})
		}
		head := f.commit(nil, entries...)
		if after == 0 {
			lost(func() error { _, err := f.acts.Finish(t.Context(), f.finishInput(head)); return err })
		}
		f.finish(head)
		require.Equal(t, strings.Repeat("line\n", 50), f.read("out.jsonl"))
	}
}

// A connection that is dropped while a compressed input is copied does not fail the job.
func TestOutage_WhileSpooling(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := io.WriteString(z, lines("line", 5000))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	for _, after := range []int64{5, 100, int64(packed.Len()) - 1} {
		f := setup(t, "in.txt.gz", packed.String())
		access := f.beFlaky()
		access.after.Store(after)
		access.out.Store(true)
		_, err := f.acts.Plan(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 10})
		requireOutage(t, err)
		access.out.Store(false)
		f.finishAll(f.plan())
		require.Equal(t, lines("line", 5000), f.read("out.jsonl"))
	}
	f := setup(t, "in.txt.gz", packed.String()[:packed.Len()/2])
	_, err = f.acts.Plan(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 10})
	jobtest.RequireType(t, err, job.ErrorInput)
	require.True(t, errors.Is(err, io.ErrUnexpectedEOF), "%v", err)
}

// hanging is an access whose inputs, or whose stores' objects, hang in the middle until it is released, as on a
// file system whose server is away.
type hanging struct {
	ledger.Access
	hangs    atomic.Bool
	began    chan struct{}
	released chan struct{}
}

func (a *hanging) hang(ctx context.Context, what string) {
	if a.hangs.Load() {
		defer stall.Begin(ctx, what, "/mnt/far").Close()
		a.began <- struct{}{}
		<-a.released
	}
}

func (a *hanging) OpenInput(ctx context.Context, url string, offset, length int64) (io.ReadCloser, error) {
	r, err := a.Access.OpenInput(ctx, url, offset, length)
	return struct {
		io.Reader
		io.Closer
	}{readerFunc(func(p []byte) (int, error) { a.hang(ctx, "reading"); return r.Read(p) }), r}, err
}

func (a *hanging) Open(ctx context.Context, location string) (store.Dir, error) {
	d, err := a.Access.Open(ctx, location)
	return hangingDir{d, a}, err
}

type hangingDir struct {
	store.Dir
	of *hanging
}

func (d hangingDir) Create(ctx context.Context, key string) (store.Writer, error) {
	d.of.hang(ctx, "creating")
	return d.Dir.Create(ctx, key)
}

func (d hangingDir) Put(ctx context.Context, key string, data []byte) error {
	d.of.hang(ctx, "writing")
	return d.Dir.Put(ctx, key, data)
}

func (d hangingDir) Get(ctx context.Context, key string) ([]byte, error) {
	d.of.hang(ctx, "reading")
	return d.Dir.Get(ctx, key)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A read or write that hangs gives back its batch, its slot and its activity, at no attempt of theirs.
func TestOutage_StalledOperationIsGivenUp(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.txt", strings.Repeat("line\n", 50))
	access := &hanging{Access: f.acts.opts.Access, began: make(chan struct{}, 100), released: make(chan struct{})}
	handler := &callstest.Handler{As: calls.Traits{Form: calls.Lines}}
	slots := &counted{}
	f.acts.Close()
	f.acts = New(Options{Access: access, Handler: handler, Slots: slots, Patience: time.Second})
	gone := func(do func() error) {
		t.Helper()
		access.hangs.Store(true)
		err := do()
		access.hangs.Store(false)
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app)
		require.Equal(t, job.ErrorOutage, app.Type(), "%v", err)
		require.ErrorContains(t, err, "/mnt/far: nothing has happened for")
		<-access.began
	}
	gone(func() error {
		_, err := f.acts.Plan(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 10})
		return err
	})
	batches := f.plan()
	gone(func() error { _, err := f.acts.Process(t.Context(), f.input(batches[0])); return err })
	require.Zero(t, slots.taken.Load(), "another batch has the slot meanwhile")
	require.Zero(t, handler.Calls())
	entries := f.processAll(batches)
	gone(func() error {
		_, err := f.acts.Commit(t.Context(), wire.CommitInput{Ref: f.ref, Entries: entries})
		return err
	})
	head := f.commit(nil, entries...)
	gone(func() error { _, err := f.acts.Finish(t.Context(), f.finishInput(head)); return err })
	made := handler.Calls()
	t.Cleanup(func() { // what was given up goes on, and may still write
		require.Eventually(t, func() bool { return os.RemoveAll(filepath.Dir(f.spec.Output)) == nil }, time.Minute, 10*time.Millisecond)
	})
	close(access.released)
	finish := func() error {
		_, err := f.finishOnce(t.Context(), f.finishInput(head))
		return err
	}
	// The Finish that was given up goes on beside this one, and the first of them to publish clears the store under the
	// other: that one is repeated, as Temporal does it.
	err := finish()
	for deadline := time.Now().Add(time.Minute); err != nil && time.Now().Before(deadline); err = finish() {
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app)
		require.Equal(t, job.ErrorOutage, app.Type(), "%v", err)
		require.False(t, app.NonRetryable(), "%v", err)
	}
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("line\n", 50), f.read("out.jsonl"))
	require.Equal(t, made, handler.Calls(), "an execution that was given up makes no calls")
	f.acts.Close()
}

// A batch heartbeats while its store hangs before it has begun: no other worker gets it, and it loses no attempt.
func TestOutage_HeartbeatsBeforeTheFirstItem(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.txt", strings.Repeat("line\n", 50))
	f.spec.BatchItems = 50
	batch := f.plan()[0]
	access := &hanging{Access: f.acts.opts.Access, began: make(chan struct{}, 100), released: make(chan struct{})}
	access.hangs.Store(true)
	f.acts.Close()
	f.acts = New(Options{Access: access, Handler: &callstest.Handler{As: calls.Traits{Form: calls.Lines}}})
	t.Cleanup(f.acts.Close)
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	env.SetWorkerOptions(sdkworker.Options{DeadlockDetectionTimeout: time.Minute}) // on a busy machine it may take long to begin
	env.RegisterActivity(f.acts.Process)
	var beats atomic.Int64
	env.SetOnActivityHeartbeatListener(func(*activity.Info, converter.EncodedValues) {
		if beats.Add(1) == 3 {
			access.hangs.Store(false)
			close(access.released)
		}
	})
	var result wire.ProcessResult
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: 10 * time.Minute, HeartbeatTimeout: 4 * time.Second,
			RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
		}), f.acts.Process, f.input(batch)).Get(ctx, &result)
	})
	require.NoError(t, env.GetWorkflowError())
	require.EqualValues(t, 50, result.Entry.Count)
	require.Len(t, access.began, 1)
}

// counted counts the places that are taken.
type counted struct{ taken atomic.Int64 }

func (c *counted) Take(ctx context.Context, o calls.Occupant) (calls.Slot, error) {
	c.taken.Add(1)
	slot, err := calls.AnySlot{}.Take(ctx, o)
	return &countedSlot{Slot: slot, of: c}, err
}

type countedSlot struct {
	calls.Slot
	of   *counted
	left sync.Once
}

func (s *countedSlot) Leave() {
	s.left.Do(func() { s.of.taken.Add(-1) })
	s.Slot.Leave()
}
