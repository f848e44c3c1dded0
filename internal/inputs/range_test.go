package inputs

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stint-run/stint/internal/jobtest"
	"github.com/stint-run/stint/internal/protocol"
	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// rangeOf opens a batch of a text file.
func rangeOf(t *testing.T, text string, batch protocol.Batch) (*Range, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "in.txt")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o666))
	n := New(&store.Access{}, nil)
	t.Cleanup(n.Close)
	table, err := n.List(t.Context(), nil, PlanInput{Spec: job.Spec{Input: []string{file}}.WithDefaults()})
	require.NoError(t, err)
	r, err := n.OpenRange(t.Context(), nil, table, batch)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r, file
}

func TestRange_Split(t *testing.T) {
	t.Parallel()
	whole := protocol.Batch{Offset: 3, Length: 8, First: 10, Count: 3} // with a blank line at the end
	r, file := rangeOf(t, "a\n\nb\nc\ndd\n\ne\n", whole)
	done, rest := r.Split()
	require.Equal(t, protocol.Batch{Offset: 3, First: 10}, done)
	require.Equal(t, &whole, rest)

	var chunk records.Chunk
	require.NoError(t, r.Next(&chunk, 2, 100))
	require.Len(t, chunk.Items, 2)
	origin, err := r.Origin(t.Context(), 11, r.Shape(), &chunk.Items[1])
	require.NoError(t, err)
	require.Equal(t, records.Origin{Source: file, Offset: 5, Shape: r.Shape(), Item: &chunk.Items[1]}, origin)
	r.Done(chunk.Items[:0])
	r.Done(chunk.Items[:1])
	done, rest = r.Split()
	require.Equal(t, protocol.Batch{Offset: 3, Length: 2, First: 10, Count: 1}, done)
	require.Equal(t, &protocol.Batch{Offset: 5, Length: 6, First: 11, Count: 2}, rest)

	r.Done(chunk.Items[1:])
	require.NoError(t, r.Next(&chunk, 2, 100))
	r.Done(chunk.Items)
	done, rest = r.Split()
	require.Equal(t, whole, done)
	require.Nil(t, rest)
	require.Equal(t, io.EOF, r.Next(&chunk, 2, 100))
	require.NoError(t, r.Unchanged(t.Context()))
	require.False(t, r.NotesDrops())
	original, err := r.Original(t.Context(), 11)
	require.NoError(t, err)
	require.EqualValues(t, 11, original)
}

// A range that does not hold what was planned, and a file that has changed since, are found.
func TestRange_Changed(t *testing.T) {
	t.Parallel()
	r, file := rangeOf(t, "a\nb\n", protocol.Batch{Length: 4, Count: 3})
	var chunk records.Chunk
	require.NoError(t, r.Next(&chunk, 5, 100))
	r.Done(chunk.Items)
	err := r.Next(&chunk, 5, 100)
	jobtest.RequireType(t, err, job.ErrorChanged)
	require.ErrorContains(t, err, "4 bytes from offset 0 held 3 items when they were planned, and now hold 2")
	require.NoError(t, os.WriteFile(file, []byte("other\n"), 0o666))
	jobtest.RequireType(t, r.Unchanged(t.Context()), job.ErrorChanged)

	r, file = rangeOf(t, "a\nb\nc\n", protocol.Batch{Length: 6, Count: 3})
	require.NoError(t, os.Truncate(file, 2)) // it is open already
	require.NoError(t, r.Next(&chunk, 5, 100))
	err = r.Next(&chunk, 5, 100)
	jobtest.RequireType(t, err, job.ErrorChanged)
	require.ErrorContains(t, err, "now has 2 bytes", "it says what has changed")
}
