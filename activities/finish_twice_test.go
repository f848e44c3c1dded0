package activities

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
)

// An earlier run has left the same output, and other errors; DONE was written, but nothing published.
func TestFinish_SameOutputAsBeforeWithOtherErrors(t *testing.T) {
	t.Parallel()
	for name, stale := range map[string]string{"none": "", "others": "of an earlier job\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, "in.jsonl", jobtest.Lines(60))
			heads, want, wantErrors := f.done(1)
			saved := f.saveParts()
			first := f.finish(heads...)
			saved()
			require.NoError(t, os.Remove(f.spec.Errors))
			if stale != "" {
				f.write("out.jsonl.errors.jsonl", stale)
			}
			again := f.finish(heads...)
			f.requireOutput(want, wantErrors)
			require.Equal(t, first, again)
		})
	}
}

// An earlier run has left the same output with errors; now there are none.
func TestFinish_SameOutputAsBeforeWithoutErrors(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(20))
	head := f.commit(nil, f.processAll(f.plan())...)
	saved := f.saveParts()
	f.finish(head)
	saved()
	f.write("out.jsonl.errors.jsonl", "of an earlier job\n")
	f.finish(head)
	f.requireOutput(jobtest.Lines(20), "")
}

// An execution that was given up publishes while the next one is at any of its steps: both succeed.
func TestFinish_TwoExecutionsAtOnce(t *testing.T) {
	t.Parallel()
	for step := 0; ; step++ {
		f := setup(t, "in.jsonl", jobtest.Lines(60))
		heads, want, wantErrors := f.done(2)
		ctx := &interrupted{Context: t.Context(), left: step}
		var first wire.FinishResult
		ctx.do = func() { first = f.finishThrough(t.Context(), heads) }
		second := f.finishThrough(ctx, heads)
		begun := ctx.begun()
		f.requireOutput(want, wantErrors)
		if !begun {
			require.Greater(t, step, 20)
			return
		}
		require.Equal(t, first, second, "step %d", step)
	}
}

// The same of a redrive: what either of the two reports is there, and can be redriven again.
func TestRedrive_TwoFinishesAtOnce(t *testing.T) {
	t.Parallel()
	for _, output := range []string{"out.jsonl", "out/", "split/"} {
		t.Run(output, func(t *testing.T) {
			t.Parallel()
			for step := 0; ; step++ {
				f := setup(t, "in.jsonl", jobtest.Lines(40))
				f.spec.Output, f.spec.Store, f.spec.Errors, f.spec.BatchItems = f.path("")+"/"+output, "", "", 8
				if output == "split/" {
					f.spec.Split = "k"
				}
				f.newRun("")
				m := newModel(f, calls.Lines, 3)
				m.decide = failingAt(3, 9, 10, 39)
				m.run()
				m.decide = failingAt(10)
				heads := m.begin()
				ctx := &interrupted{Context: t.Context(), left: step}
				var first wire.FinishResult
				ctx.do = func() { first = f.finishThrough(t.Context(), heads) }
				second := f.finishThrough(ctx, heads)
				begun := ctx.begun()
				m.finished(second, heads)
				m.requireSwept()
				if !begun {
					require.Greater(t, step, 20)
					return
				}
				require.Equal(t, first, second, "step %d", step)
			}
		})
	}
}

// finishThrough publishes as the server has it done: an error that is not permanent is followed by another attempt.
func (f *fixture) finishThrough(ctx context.Context, heads []string) wire.FinishResult {
	f.t.Helper()
	result, err := f.finishOnce(ctx, f.finishInput(heads...))
	var permanent *temporal.ApplicationError
	if err != nil && (!errors.As(err, &permanent) || !permanent.NonRetryable()) {
		return f.finish(heads...)
	}
	require.NoError(f.t, err)
	return result
}

// interrupted is a context at the n-th look at which something is done. Where that waits for a lock of the
// interrupted one it continues beside it.
type interrupted struct {
	context.Context
	do func()

	mu   sync.Mutex
	left int
	done chan struct{} // nil: not begun
}

func (c *interrupted) Err() error {
	c.mu.Lock()
	c.left--
	begin := c.left == -1
	if begin {
		c.done = make(chan struct{})
		go func() { defer close(c.done); c.do() }()
	}
	c.mu.Unlock()
	if begin {
		select {
		case <-c.done:
		case <-time.After(50 * time.Millisecond):
		}
	}
	return c.Context.Err()
}

// begun waits for what was begun, and reports whether anything was.
func (c *interrupted) begun() bool {
	c.mu.Lock()
	done := c.done
	c.mu.Unlock()
	if done != nil {
		<-done
	}
	return done != nil
}

// A redrive that ran items again does not give their results up for what an overtaken attempt has left.
func TestRedrive_OvertakenAttemptIsNotAdopted(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(40))
	f.spec.BatchItems = 8
	m := newModel(f, calls.Lines, 3)
	m.decide = failingAt(3, 9)
	m.run()

	before := maps.Clone(m.failed)
	heads := m.begin() // an attempt in which everything fails again, ...
	slow, late := f.ref, f.finishInput(heads...)
	m.redrive.Runs = append(m.redrive.Runs, m.ref.Run)
	m.failed, m.decide = before, failingAt(9)
	heads = m.begin() // ... and another one, which overtakes it
	require.NotEqual(t, slow.Run, f.ref.Run)
	_, err := f.finishOnce(t.Context(), late)
	require.Error(t, err)
	done, err := ledger.ReadDone(t.Context(), f.store(), slow.Run)
	require.NoError(t, err)
	require.NotNil(t, done, "it had got as far as DONE")
	result := m.finishRun(heads...)
	require.EqualValues(t, 1, result.Books.Failed)
	m.requireSwept()
}

// Once looks again only after a failure for good: another attempt follows upon any other.
func TestOnce(t *testing.T) {
	t.Parallel()
	looks := 0
	adopt := func(context.Context) (bool, error) { looks++; return looks > 1, nil }
	transient := errors.New("transient")
	err := outputs.Once(t.Context(), adopt, func(context.Context) error { return transient })
	require.ErrorIs(t, err, transient)
	require.Equal(t, 1, looks)
	looks = 0
	gone := ledger.StoreError("PartCorrupt", &store.CorruptError{Key: "k", Reason: "gone"})
	require.NoError(t, outputs.Once(t.Context(), adopt, func(context.Context) error { return fmt.Errorf("joining: %w", gone) }))
	require.Equal(t, 2, looks)
}

// A run that had nothing left to do publishes, and its result is lost: the run after it, which knows the manifests of
// the first only, finds what is published, and needs no parts.
func TestFinish_AfterARunWithoutManifests(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(20))
	head := f.commit(nil, f.processAll(f.plan())...)
	var before wire.FinishResult
	for _, run := range []string{"run-2", "run-3", "run-4"} {
		f.newRun(run)
		require.Empty(t, f.plan(head))
		result := f.finish(head)
		require.Equal(t, jobtest.Lines(20), f.read("out.jsonl"))
		require.Empty(t, f.keys("run-1/parts/"), "swept")
		if run != "run-2" {
			require.Equal(t, before, result)
		}
		before = result
	}
}
