package ledger

import (
	"context"
	"testing"

	"github.com/stint-run/stint/internal/jobtest"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/internal/store/object"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// otherProcess is a bucket as one of several processes sees it: no lock lies between its looks and its writes.
type otherProcess struct {
	store.Dir
	beforePut func() // nil: nothing
}

func (d *otherProcess) Claim(ctx context.Context, key, value string, admit func(string) error) error {
	return object.Claim(ctx, d, key, value, admit)
}

func (d *otherProcess) Guard(ctx context.Context, key, want string, fn func(context.Context) error) error {
	return object.Fence(ctx, d, key, want, fn)
}

func (d *otherProcess) Put(ctx context.Context, key string, data []byte) error {
	if do := d.beforePut; do != nil {
		d.beforePut = nil
		do()
	}
	return d.Dir.Put(ctx, key, data)
}

func openMem(t *testing.T) store.Dir {
	t.Helper()
	access := &store.Access{}
	t.Cleanup(func() { require.NoError(t, access.Close()) })
	dir, err := access.Open(t.Context(), "mem://ledger-claims/"+t.Name())
	require.NoError(t, err)
	return dir
}

// The first page of an older run is frozen between its look at CURRENT and its claim, until a newer run has claimed the store: that
// one publishes all the same, and the older one does not any more.
func TestClaim_OfAnOlderRunThatIsLate(t *testing.T) {
	t.Parallel()
	dir := openMem(t)
	older, newer := Ref{Run: "a", Born: 1}, Ref{Run: "b", Born: 2}
	late := &otherProcess{Dir: dir, beforePut: func() { require.NoError(t, newer.Claim(t.Context(), &otherProcess{Dir: dir})) }}
	require.NoError(t, older.Claim(t.Context(), late))
	held, err := dir.Get(t.Context(), CurrentKey)
	require.NoError(t, err)
	require.Equal(t, older.current(), string(held), "the older claim came last")

	published := 0
	publish := func(context.Context) error { published++; return nil }
	require.NoError(t, newer.WhileCurrent(t.Context(), &otherProcess{Dir: dir}, publish))
	require.Equal(t, 1, published)
	jobtest.RequireType(t, older.WhileCurrent(t.Context(), &otherProcess{Dir: dir}, publish), job.ErrorFenced)
	require.Equal(t, 1, published)
}

// What publishing itself returns is its error, and is no reason to publish again.
func TestWhileCurrent_ErrorOfWhatItRuns(t *testing.T) {
	t.Parallel()
	dir, ref := openMem(t), Ref{Run: "b", Born: 2}
	require.NoError(t, ref.Claim(t.Context(), dir))
	published := 0
	err := ref.WhileCurrent(t.Context(), dir, func(context.Context) error {
		published++
		return &store.FencedError{Key: "other", Have: "a born 1"}
	})
	jobtest.RequireType(t, err, job.ErrorFenced)
	require.Equal(t, 1, published)
}

// A store that was cleared, or that holds something else, stays as it is.
func TestWhileCurrent_NoRunIsNamed(t *testing.T) {
	t.Parallel()
	dir, ref := openMem(t), Ref{Run: "b", Born: 2}
	publish := func(context.Context) error { t.Error("published"); return nil }
	jobtest.RequireType(t, ref.WhileCurrent(t.Context(), dir, publish), job.ErrorFenced)
	require.NoError(t, dir.Put(t.Context(), CurrentKey, []byte("something")))
	jobtest.RequireType(t, ref.WhileCurrent(t.Context(), dir, publish), job.ErrorFenced)
}
