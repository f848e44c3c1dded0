package inputs

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// rangeOf opens a batch of a text file.
func rangeOf(t *testing.T, text string, batch wire.Batch) (*Range, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "in.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o666))
	n := New(&store.Access{}, nil)
	t.Cleanup(n.Close)
	table, err := n.List(t.Context(), nil, wire.PlanInput{Spec: job.Spec{Files: &job.Files{Input: []string{file}}}.WithDefaults()})
	require.NoError(t, err)
	r, err := n.OpenRange(t.Context(), nil, table, batch)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r, file
}

func TestRange_Split(t *testing.T) {
	t.Parallel()
	whole := wire.Batch{Offset: 3, Length: 8, First: 10, Count: 3}.Sealed() // with a blank line at the end
	r, file := rangeOf(t, "a\n\nb\nc\ndd\n\ne\n", whole)
	done, rest := r.Split()
	require.Equal(t, wire.Batch{Offset: 3, First: 10}.Sealed(), done)
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
	require.Equal(t, wire.Batch{Offset: 3, Length: 2, First: 10, Count: 1}.Sealed(), done)
	require.Equal(t, new(wire.Batch{Offset: 5, Length: 6, First: 11, Count: 2}.Sealed()), rest)

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
	r, file := rangeOf(t, "a\nb\n", wire.Batch{Length: 4, Count: 3}.Sealed())
	var chunk records.Chunk
	require.NoError(t, r.Next(&chunk, 5, 100))
	r.Done(chunk.Items)
	err := r.Next(&chunk, 5, 100)
	jobtest.RequireType(t, err, job.ErrorChanged)
	require.ErrorContains(t, err, "4 bytes from offset 0 held 3 items when they were planned, and now hold 2")
	require.NoError(t, os.WriteFile(file, []byte("other\n"), 0o666))
	jobtest.RequireType(t, r.Unchanged(t.Context()), job.ErrorChanged)

	r, file = rangeOf(t, "a\nb\nc\n", wire.Batch{Length: 6, Count: 3}.Sealed())
	require.NoError(t, os.Truncate(file, 2)) // it is open already
	require.NoError(t, r.Next(&chunk, 5, 100))
	err = r.Next(&chunk, 5, 100)
	jobtest.RequireType(t, err, job.ErrorChanged)
	require.ErrorContains(t, err, "now has 2 bytes", "it says what has changed")
}

// What is left behind any item is read as the rest of the batch was, also if small inputs of different shapes follow
// one another, and items are done later than others are read.
func TestRange_RestsOfMixedInputs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"a.json": "[{\"a\":1},,\n{\"a\":\n2} ,3,]\n", "b.json": "{\"a\":4}\n\n[5]\n", "c.json": "{\n\"a\": 6\n}{\"a\": 7}\"8\"9", "d.json": "[]", "e.json": "[10]",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666))
	}
	n := New(&store.Access{}, nil)
	defer n.Close()
	in := wire.PlanInput{Spec: job.Spec{Files: &job.Files{Input: []string{dir + "/"}}, BatchItems: 100}.WithDefaults()}
	table, err := n.List(t.Context(), nil, in)
	require.NoError(t, err)
	require.Len(t, table.Sources, 1, "a bundle")
	planner := n.Dry(table)
	defer planner.Close()
	batch, err := planner.Next(t.Context(), 100, 1<<20)
	require.NoError(t, err)
	require.EqualValues(t, 12, batch.Count)

	type found struct {
		raw, url string
		offset   int64
	}
	read := func(batch wire.Batch, rests func(wire.Batch, int)) (all []found) {
		r, err := n.OpenRange(t.Context(), nil, table, batch)
		require.NoError(t, err)
		defer r.Close()
		var before records.Chunk // it is done after the next one is read
		for {
			var chunk records.Chunk
			err := r.Next(&chunk, 1, 100)
			r.Done(before.Items)
			require.NoError(t, r.Unchanged(t.Context()), "of a rest, too")
			if _, rest := r.Split(); rest != nil && rests != nil {
				rests(*rest, int(batch.Count-rest.Count))
			}
			if err == io.EOF {
				return all
			}
			require.NoError(t, err)
			origin, err := r.Origin(t.Context(), 0, r.Shape(), &chunk.Items[0])
			require.NoError(t, err)
			line, _ := records.AppendJSON(r.Shape(), nil, &chunk.Items[0])
			all = append(all, found{string(line), filepath.Base(origin.Source), origin.Offset})
			before = chunk
		}
	}
	whole := read(batch, nil)
	require.Equal(t, []found{
		{`{"a":1}`, "a.json", 1}, {"", "a.json", 9}, {`{"a":2}`, "a.json", 11}, {"3", "a.json", 21}, {"", "a.json", 23},
		{`{"a":4}`, "b.json", 0}, {"[5]", "b.json", 9}, {`{"a":6}`, "c.json", 0}, {`{"a": 7}`, "c.json", 10}, {`"8"`, "c.json", 18}, {"9", "c.json", 21},
		{"10", "e.json", 1},
	}, whole)
	read(batch, func(rest wire.Batch, done int) {
		require.Equal(t, whole[done:], read(rest, nil), "%v", rest)
	})
}
