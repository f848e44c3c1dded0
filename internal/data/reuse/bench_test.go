package reuse

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
)

// BenchmarkReuse writes and publishes the notes of a million short lines, in batches of 100,000.
func BenchmarkReuse(b *testing.B) {
	var lines []byte
	const items, batch = 1_000_000, 100_000
	for i := range batch {
		lines = fmt.Appendf(lines, "line %d abc\n", i)
	}
	access := store.Access{}
	dir, err := access.Open(context.Background(), b.TempDir())
	require.NoError(b, err)
	shape := &wire.Shape{Format: records.Text}
	r := &wire.Reuse{HashKey: NewHashKey()}
	var entries []ledger.OwnedEntry
	ctx := context.Background()
	b.Run("notes", func(b *testing.B) {
		for b.Loop() {
			entries = nil
			for first := 0; first < items; first += batch {
				h, err := NewHasher(r)
				require.NoError(b, err)
				e := wire.Entry{Batch: wire.Batch{First: int64(first), Count: batch}, Part: ledger.NewToken(), OK: batch}
				s := NewStream(h, shape, batch)
				for piece := range chunks(lines, 64<<10) {
					s.Items(piece)
					s.Results(piece)
				}
				n := NewNotes(dir, "run", e)
				require.NoError(b, s.WriteTo(ctx, n))
				require.NoError(b, n.Commit(ctx))
				w := ledger.PartWriter{Dir: dir, Key: ledger.ResultsKey("run", e)}
				require.NoError(b, w.Write(ctx, lines))
				require.NoError(b, w.Commit())
				e.Bytes, e.Sum = w.Bytes, w.Sum
				entries = append(entries, ledger.OwnedEntry{Entry: e, Owner: "run"})
			}
		}
	})
	b.Run("publish", func(b *testing.B) {
		for b.Loop() {
			p := &publishing{ctx: ctx, prefix: "reuse/x", Results: &Results{
				Reuse: r, Dir: dir, To: dir, Items: items, Bytes: int64(len(lines)) * items / batch,
				Entries: func(_ context.Context, fn func(ledger.OwnedEntry) error) error {
					for _, e := range entries {
						if err := fn(e); err != nil {
							return err
						}
					}
					return nil
				},
			}}
			require.NoError(b, p.begin())
			require.NoError(b, p.writeResults(ctx))
			require.NoError(b, p.writeIndex(ctx))
		}
	})
}

// chunks cuts lines into pieces of about so many bytes, which end with a line.
func chunks(lines []byte, size int) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(lines) > 0 {
			n := len(lines)
			if n > size {
				n = bytes.LastIndexByte(lines[:size], '\n') + 1
			}
			if !yield(lines[:n]) {
				return
			}
			lines = lines[n:]
		}
	}
}
