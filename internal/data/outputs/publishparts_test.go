package outputs

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// eventDir notes what is read and written, in order.
type eventDir struct {
	store.Dir
	events []string
}

func (d *eventDir) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if strings.Contains(key, "/parts/") {
		d.events = append(d.events, "part")
	}
	return d.Dir.Open(ctx, key, offset, length)
}

func (d *eventDir) Create(ctx context.Context, key string) (store.Writer, error) {
	w, err := d.Dir.Create(ctx, key)
	return &eventWriter{w, d}, err
}

type eventWriter struct {
	store.Writer
	dir *eventDir
}

func (w *eventWriter) Write(p []byte) (int, error) {
	w.dir.events = append(w.dir.events, "line")
	return w.Writer.Write(p)
}

func (w *eventWriter) Commit() error {
	w.dir.events = append(w.dir.events, "list")
	return w.Writer.Commit()
}

// The list of parts is written as the parts are verified, and seen once all are: memory does not grow with their
// number.
func TestPublishParts_WritesTheListAsItGoes(t *testing.T) {
	t.Parallel()
	access := &store.Access{}
	spec := job.Spec{Name: "x", Pool: "x", Output: t.TempDir() + "/"}.WithDefaults()
	ref := wire.Ref{Run: "run", Store: spec.Store, Sources: "run/sources"}
	p, err := NewPublication(t.Context(), access, ref, spec)
	require.NoError(t, err)
	dir := &eventDir{Dir: p.Dir}
	var entries []wire.Entry
	var want []string
	for i := range int64(3) {
		e := wire.Entry{Batch: wire.Batch{First: i, Count: 1, Offset: i, Length: 1}.Sealed(), Part: fmt.Sprint(i), OK: 1}
		w := &ledger.PartWriter{Dir: p.Dir, Key: ledger.ResultsKey("run", e)}
		require.NoError(t, w.Write(t.Context(), []byte("x\n")))
		require.NoError(t, w.Commit())
		e.Bytes, e.Sum = w.Bytes, w.Sum
		entries = append(entries, e)
		want = append(want, "part", "line")
	}
	require.NoError(t, ledger.Claim(t.Context(), ref, p.Dir))
	key, err := ledger.WriteManifest(t.Context(), p.Dir, ref, 0, nil, entries, wire.Besides{})
	require.NoError(t, err)
	p.Links, err = ledger.Chain(t.Context(), p.Dir, []string{key})
	require.NoError(t, err)
	p.Dir = dir
	none := func(context.Context) error { return nil }
	require.NoError(t, p.publishParts(t.Context(), none, nil))
	require.Equal(t, append(want, "list"), dir.events)
	list, err := dir.Get(t.Context(), PartsList)
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(string(list), "\n"))
}
