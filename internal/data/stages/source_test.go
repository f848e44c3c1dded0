package stages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// parcelOf writes a part: each item is its result, "" if it is dropped, "!" if it has failed. Results come in pieces of
// random sizes, and notes before the results that they lie among.
func parcelOf(t *testing.T, dir store.Dir, seed uint64, items []string) wire.Batch {
	t.Helper()
	random := jobtest.Seeded(t, seed)
	e := wire.Entry{Batch: wire.Batch{First: 100, Count: int64(len(items))}.Sealed(), Part: ledger.NewToken()}
	inline := seed%2 == 1
	p := NewPart("run-1", e, map[bool]int{true: wire.MaxInline}[inline], opened(dir))
	defer p.Close()
	var unwritten []byte
	at := int64(0)
	for i, item := range items {
		switch item {
		case "":
			require.NoError(t, p.Note(t.Context(), ledger.DroppedLine(at)))
		case "!":
			require.NoError(t, p.Note(t.Context(), wire.ErrorLine{At: at, Failure: job.Failure{Item: 100 + int64(i), Kind: job.KindError}}))
		default:
			unwritten = append(append(unwritten, item...), '\n')
			at += int64(len(item)) + 1
		}
		if random.IntN(3) == 0 {
			var err error
			unwritten, err = p.Results(t.Context(), unwritten)
			require.NoError(t, err)
			require.Equal(t, at, p.At())
		}
	}
	_, err := p.Results(t.Context(), unwritten)
	require.NoError(t, err)
	require.NoError(t, p.Commit(&e))
	b := e.Batch
	b.From = &wire.Parcel{Step: 1, Run: "run-1", Parts: []wire.Part{{
		Number: 1, Run: "run-1", Token: e.Part, First: b.First, Count: b.Count, Format: "text",
		Bytes: e.Bytes, Sum: e.Sum, ErrBytes: e.ErrBytes, ErrSum: e.ErrSum, Inline: p.Inline(),
	}}}
	if inline && e.Bytes+e.ErrBytes <= wire.MaxInline {
		require.NotNil(t, p.Inline())
	}
	return b
}

// opened opens a store that is open.
func opened(dir store.Dir) func() (store.Dir, error) {
	return func() (store.Dir, error) { return dir, nil }
}

func openDir(t *testing.T) store.Dir {
	t.Helper()
	dir, err := (&store.Access{}).Open(t.Context(), t.TempDir()+"/")
	require.NoError(t, err)
	return dir
}

// readAll returns what a source gives, in the form of parcelOf.
func readAll(t *testing.T, s *Source, items, bytes int) (all []string, err error) {
	t.Helper()
	var chunk records.Chunk
	for {
		err := s.Next(&chunk, items, bytes)
		if errors.Is(err, io.EOF) {
			return all, s.Unchanged(t.Context())
		}
		if err != nil {
			return all, err
		}
		require.LessOrEqual(t, len(chunk.Items), items)
		for i := range chunk.Items {
			switch known := chunk.Items[i].Outcome; {
			case known == nil:
				all = append(all, string(chunk.Items[i].Raw))
			case known.Line == nil:
				all = append(all, "")
			default:
				all = append(all, "!")
			}
		}
		s.Done(chunk.Items)
	}
}

func noOrigin() (Origin, error) { return nil, errors.New("not needed") }

// What a stage writes is what the next one reads, from any item on, whatever has been dropped or has failed, and
// wherever.
func TestSource_ReadsWhatPartHasWritten(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	for seed := range uint64(200) {
		random := jobtest.Seeded(t, seed)
		items := make([]string, 1+random.IntN(30))
		for i := range items {
			items[i] = []string{"", "!", fmt.Sprint("item ", i), strings.Repeat("long ", 20_000*random.IntN(2)+i+1)}[random.IntN(4)]
		}
		b := parcelOf(t, dir, seed, items)
		skip := random.Int64N(b.Count)
		rest := b.After(skip, 0)
		s, err := Open(t.Context(), rest, Options{Store: opened(dir), View: wire.View{Part: 1}, Origin: noOrigin})
		require.NoError(t, err)
		got, err := readAll(t, s, 1+random.IntN(10), 1+random.IntN(1000))
		require.NoError(t, err, "seed %d", seed)
		require.Equal(t, items[skip:], got, "seed %d", seed)
		s.Close()
	}
}

// As in an input, a blank line is no item: the stages have the output that they have one after the other.
func TestSource_BlankLines(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	s, err := Open(t.Context(), parcelOf(t, dir, 1, []string{"a", " \t", "!", "b"}), Options{Store: opened(dir), View: wire.View{Part: 1}, Origin: noOrigin})
	require.NoError(t, err)
	defer s.Close()
	got, err := readAll(t, s, 10, 1000)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "", "!", "b"}, got)
}

// A part that is not what was accepted is never passed on.
func TestSource_Corrupt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		change  func(data string) string // of the part; "": it is removed
		accepts func(p *wire.Part)
		want    string
	}{
		{"gone", func(string) string { return "" }, nil, "is gone from the store"},
		{"a line less", func(s string) string { return s[:len(s)-2] }, nil, "is not what was accepted"},
		{"a line more", func(s string) string { return s + "x\n" }, nil, "is not what was accepted"},
		{"another byte", func(s string) string { return "A" + s[1:] }, nil, "is not what was accepted"},
		{"fewer lines than items", nil, func(p *wire.Part) { p.Count++ }, "fewer lines than items"},
		{"more lines than items", nil, func(p *wire.Part) { p.Count-- }, "more lines than items"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := openDir(t)
			b := parcelOf(t, dir, 2, []string{"a", "!", "c", "d"})
			key := ledger.ResultsKey("run-1", wire.Entry{Batch: b, Part: b.From.Parts[0].Token})
			if c.change != nil {
				data, err := dir.Get(t.Context(), key)
				require.NoError(t, err)
				require.NoError(t, dir.Delete(t.Context(), key))
				if changed := c.change(string(data)); changed != "" {
					w, err := dir.Create(context.Background(), key)
					require.NoError(t, err)
					_, err = w.Write([]byte(changed))
					require.NoError(t, err)
					require.NoError(t, w.Commit())
				}
			}
			if c.accepts != nil {
				p := &b.From.Parts[0]
				c.accepts(p)
				b.First, b.Count = p.First, p.Count
			}
			s, err := Open(t.Context(), b, Options{Store: opened(dir), View: wire.View{Part: 1}, Origin: noOrigin})
			if err == nil {
				defer s.Close()
				_, err = readAll(t, s, 2, 100)
			}
			require.ErrorContains(t, err, c.want)
			jobtest.RequireType(t, err, job.ErrorCorrupt)
		})
	}
}
