package ledger

import (
	"context"
	"testing"

	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/data/store/object"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// otherProcess is a bucket without conditional writes as one of several processes sees it: no lock lies between its
// looks and its writes.
type otherProcess struct {
	store.Dir
	beforePut func() // nil: nothing
}

// conditionalProcess is a bucket with conditional writes as one of several processes sees it.
type conditionalProcess struct{ otherProcess }

func (d *conditionalProcess) Claim(ctx context.Context, key, value string, admit func(string) error) error {
	return object.Claim(ctx, d, key, value, admit)
}

func (d *conditionalProcess) CreateWith(ctx context.Context, key string, o object.WriteOptions) (store.Writer, error) {
	w, err := object.CreateWith(ctx, d.Dir, key, o)
	return &lateWriter{w, &d.otherProcess}, err
}

func (d *otherProcess) Claim(ctx context.Context, key, value string, admit func(string) error) error {
	return object.Claim(ctx, d, key, value, admit)
}

func (d *otherProcess) Guard(ctx context.Context, key, want string, fn func(context.Context) error) error {
	return object.Fence(ctx, d, key, want, fn)
}

func (d *otherProcess) Create(ctx context.Context, key string) (store.Writer, error) {
	w, err := d.Dir.Create(ctx, key)
	return &lateWriter{w, d}, err
}

type lateWriter struct {
	store.Writer
	process *otherProcess
}

func (w *lateWriter) Commit() error {
	if do := w.process.beforePut; do != nil {
		w.process.beforePut = nil
		do()
	}
	return w.Writer.Commit()
}

func openMem(t *testing.T) store.Dir {
	t.Helper()
	access := &store.Access{}
	t.Cleanup(func() { require.NoError(t, access.Close()) })
	dir, err := access.Open(t.Context(), "mem://ledger-claims/"+t.Name())
	require.NoError(t, err)
	return dir
}

// The first page of an older run is frozen between its look at CURRENT and its claim, until a newer run has claimed the
// store, or first claimed it at all: the claim of the newer run stays.
func TestD9_ALateClaimDoesNotReplaceANewerOne(t *testing.T) {
	t.Parallel()
	for _, before := range []int64{0, 1} {
		dir := openMem(t)
		require.NoError(t, dir.Delete(t.Context(), CurrentKey))
		if before != 0 {
			require.NoError(t, Claim(t.Context(), wire.Ref{Run: "first", Born: before}, dir))
		}
		older, newer := wire.Ref{Run: "a", Born: 2}, wire.Ref{Run: "b", Born: 3}
		late := &conditionalProcess{otherProcess{Dir: dir, beforePut: func() {
			require.NoError(t, Claim(t.Context(), newer, &conditionalProcess{otherProcess{Dir: dir}}))
		}}}
		jobtest.RequireType(t, Claim(t.Context(), older, late), job.ErrorFenced)
		held, err := dir.Get(t.Context(), CurrentKey)
		require.NoError(t, err)
		require.Equal(t, current(newer), string(held))
	}
}

// Without conditional writes: the first page of an older run is frozen between its look at CURRENT and its claim, until
// a newer run has claimed the store: that one publishes all the same, and the older one does not any more.
func TestClaim_OfAnOlderRunThatIsLate(t *testing.T) {
	t.Parallel()
	dir := openMem(t)
	older, newer := wire.Ref{Run: "a", Born: 1}, wire.Ref{Run: "b", Born: 2}
	late := &otherProcess{Dir: dir, beforePut: func() { require.NoError(t, Claim(t.Context(), newer, &otherProcess{Dir: dir})) }}
	require.NoError(t, Claim(t.Context(), older, late))
	held, err := dir.Get(t.Context(), CurrentKey)
	require.NoError(t, err)
	require.Equal(t, current(older), string(held), "the older claim came last")

	published := 0
	publish := func(context.Context) error { published++; return nil }
	require.NoError(t, WhileCurrent(t.Context(), newer, &otherProcess{Dir: dir}, publish))
	require.Equal(t, 1, published)
	jobtest.RequireType(t, WhileCurrent(t.Context(), older, &otherProcess{Dir: dir}, publish), job.ErrorFenced)
	require.Equal(t, 1, published)
}

// What publishing itself returns is its error, and is no reason to publish again.
func TestWhileCurrent_ErrorOfWhatItRuns(t *testing.T) {
	t.Parallel()
	dir, ref := openMem(t), wire.Ref{Run: "b", Born: 2}
	require.NoError(t, Claim(t.Context(), ref, dir))
	published := 0
	err := WhileCurrent(t.Context(), ref, dir, func(context.Context) error {
		published++
		return &store.FencedError{Key: "other", Have: "a born 1"}
	})
	jobtest.RequireType(t, err, job.ErrorFenced)
	require.Equal(t, 1, published)
}

// A store that was cleared, or that holds something else, stays as it is.
func TestWhileCurrent_NoRunIsNamed(t *testing.T) {
	t.Parallel()
	dir, ref := openMem(t), wire.Ref{Run: "b", Born: 2}
	publish := func(context.Context) error { t.Error("published"); return nil }
	jobtest.RequireType(t, WhileCurrent(t.Context(), ref, dir, publish), job.ErrorFenced)
	require.NoError(t, dir.Put(t.Context(), CurrentKey, []byte("something")))
	jobtest.RequireType(t, WhileCurrent(t.Context(), ref, dir, publish), job.ErrorFenced)
}
