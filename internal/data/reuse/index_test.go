package reuse

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
)

// kept is a run that has left its results.
type kept struct {
	t       *testing.T
	dir     store.Dir
	reuse   *wire.Reuse
	ref     wire.Ref
	entries []ledger.OwnedEntry
	items   int64
	bytes   int64
	wide    bool
}

func newKept(t *testing.T) *kept {
	dir, err := new(store.Access).Open(t.Context(), t.TempDir())
	require.NoError(t, err)
	k := &kept{t: t, dir: dir, reuse: &wire.Reuse{HashKey: NewHashKey()}, ref: wire.Ref{Job: "j", Run: "run", Born: 1}}
	require.NoError(t, ledger.Claim(t.Context(), k.ref, dir))
	return k
}

// part adds a part with results of items; nil: an item has none.
func (k *kept) part(digests []Digest, results [][]byte) {
	e := wire.Entry{Batch: wire.Batch{First: k.items, Count: int64(len(digests))}, Part: ledger.NewToken(), OK: int64(len(digests))}
	notes := NewNotes(k.dir, "run", e)
	out := ledger.PartWriter{Dir: k.dir, Key: ledger.ResultsKey("run", e)}
	for i, d := range digests {
		if results[i] == nil {
			require.NoError(k.t, notes.None(k.t.Context(), d))
			continue
		}
		require.NoError(k.t, notes.Result(k.t.Context(), d, results[i]))
		require.NoError(k.t, out.Write(k.t.Context(), results[i]))
	}
	require.NoError(k.t, notes.Commit(k.t.Context()))
	require.NoError(k.t, out.Commit())
	e.Bytes, e.Sum = out.Bytes, out.Sum
	k.items += e.Count
	k.bytes += e.Bytes
	k.entries = append(k.entries, ledger.OwnedEntry{Entry: e, Owner: "run"})
}

// publish publishes what was added, and opens it.
func (k *kept) publish() *Index {
	p := &publishing{ctx: k.t.Context(), prefix: Folder + "x", Results: &Results{
		Ref: k.ref, Reuse: k.reuse, Dir: k.dir, To: k.dir, Items: k.items, Bytes: k.bytes,
		Entries: func(_ context.Context, fn func(ledger.OwnedEntry) error) error {
			for _, e := range k.entries {
				if err := fn(e); err != nil {
					return err
				}
			}
			return nil
		},
	}}
	require.NoError(k.t, p.begin())
	p.of.Wide = k.wide
	require.NoError(k.t, p.publish())
	of, err := Current(k.t.Context(), k.dir)
	require.NoError(k.t, err)
	require.NotNil(k.t, of)
	x, err := Open(k.t.Context(), k.dir, of)
	require.NoError(k.t, err)
	require.NotNil(k.t, x)
	return x
}

// J4: Every item is found, wherever it is looked up, with its own result and no other one; and nothing else is.
func TestIndex_Random(t *testing.T) {
	sorted := maxSorted
	t.Cleanup(func() { maxSorted = sorted })
	maxSorted = 700
	for round := range 6 {
		random := jobtest.Seeded(t, uint64(round))
		k := newKept(t)
		k.wide = round%2 == 1
		const items = 5000
		all, results := map[Digest][]byte{}, map[Digest][]byte{}
		var order []Digest
		for len(order) < items {
			var part []Digest
			var lines [][]byte
			for range 1 + random.IntN(900) {
				d := Digest{random.Uint64(), random.Uint64()}
				if random.IntN(50) == 0 && len(order) > 0 { // the same item again
					d = order[random.IntN(len(order))]
				}
				line, again := all[d]
				if !again && random.IntN(10) > 0 {
					line = []byte(strings.Repeat(fmt.Sprint(len(order)), random.IntN(60)) + "\n")
				}
				all[d] = line
				part, lines, order = append(part, d), append(lines, line), append(order, d)
			}
			k.part(part, lines)
		}
		for d, line := range all {
			results[d] = line
		}
		x := k.publish()
		require.EqualValues(t, len(order), x.of.Items)
		cursor := x.Cursor(t.Context(), random.Int64N(items))
		look := func(d Digest) {
			found, err := cursor.Find(d)
			require.NoError(t, err)
			line, has := results[d]
			switch {
			case !has:
				require.Equal(t, New, found.Match)
			case line == nil:
				require.Equal(t, Again, found.Match)
				require.True(t, found.None)
			default:
				require.Equal(t, Same, found.Match)
				require.Equal(t, string(line), string(found.Result))
			}
		}
		for _, d := range order {
			look(d)
		}
		for range 3000 {
			d := order[random.IntN(len(order))]
			look(d)
			look(Digest{random.Uint64(), d.Content})
			if found, err := cursor.Find(Digest{d.ID, ^d.Content}); all[Digest{d.ID, ^d.Content}] == nil {
				require.NoError(t, err)
				require.Equal(t, Changed, found.Match)
				require.Equal(t, order[found.Item].ID, d.ID)
			}
		}
	}
}

// J4: An item takes at most 26 bytes on the disk, and an open index little memory.
func TestIndex_Size(t *testing.T) {
	t.Parallel()
	k := newKept(t)
	const parts, each = 20, 5000
	for p := range parts {
		digests, results := make([]Digest, each), make([][]byte, each)
		for i := range each {
			digests[i] = Digest{uint64(p*each+i+1) * 0x9E3779B97F4A7C15, uint64(i)}
			results[i] = []byte(strings.Repeat("r", 99) + "\n")
		}
		k.part(digests, results)
	}
	x := k.publish()
	info, err := k.dir.Stat(t.Context(), x.of.Index)
	require.NoError(t, err)
	require.LessOrEqual(t, info.Size, int64(26*parts*each))
	const hundredMillion = 100_000_000 / (parts * each)
	require.Less(t, (len(x.list)+len(x.ends))*hundredMillion, 40<<20)
}

func TestHasher(t *testing.T) {
	t.Parallel()
	line := func(text string) *records.Item { return &records.Item{Raw: []byte(text), Size: int64(len(text))} }
	jsonl, text := &wire.Shape{Format: records.JSONL}, &wire.Shape{Format: records.Text}
	csv := &wire.Shape{Format: records.CSV, Columns: []string{"id", "v"}}
	of := func(r wire.Reuse, shape *wire.Shape, item string) Digest {
		t.Helper()
		r.HashKey = strings.Repeat("0a", 16)
		h, err := NewHasher(&r)
		require.NoError(t, err)
		d, ok := h.Of(shape, line(item))
		require.True(t, ok)
		return d
	}
	plain, byID, byValue := wire.Reuse{}, wire.Reuse{Key: "id"}, wire.Reuse{Key: "a.id", Changed: "v"}
	require.Equal(t, of(plain, jsonl, `{"id":1}`), of(plain, jsonl, `{"id":1}`))
	require.NotEqual(t, of(plain, jsonl, `{"id":1}`), of(plain, jsonl, `{"id": 1}`), "what the handler gets is another text")
	require.NotEqual(t, of(plain, jsonl, `1`), of(plain, text, `1`), "a number and a text")
	require.Equal(t, of(plain, csv, `1,x`), of(plain, jsonl, `{"id":"1","v":"x"}`), "a record is its object")

	a, b := of(byID, jsonl, `{"id":1,"v":1}`), of(byID, jsonl, `{"v":2,"id":1}`)
	require.Equal(t, a.ID, b.ID)
	require.NotEqual(t, a.Content, b.Content)
	require.NotEqual(t, a.ID, of(byID, jsonl, `{"id":"1","v":1}`).ID, "a number is no text")
	require.NotEqual(t, of(byID, jsonl, `{"x":1}`).ID, of(byID, jsonl, `{"x":2}`).ID, "without the field it is known by its content")

	require.Equal(t, of(byValue, jsonl, `{"a":{"id":1},"v":1,"w":1}`), of(byValue, jsonl, `{"a":{"id":1},"v":1,"w":2}`))
	require.NotEqual(t, of(byValue, jsonl, `{"a":{"id":1},"v":1}`).Content, of(byValue, jsonl, `{"a":{"id":1},"v":2}`).Content)
	require.NotEqual(t, of(byValue, jsonl, `{"a":{"id":1},"w":1}`).Content, of(byValue, jsonl, `{"a":{"id":1},"w":2}`).Content, "without the field all of it counts")

	require.NotEqual(t, of(byValue, jsonl, `{"n":"a","v":1}`), of(byValue, jsonl, `{"n":"b","v":1}`), "without the key all of it counts")

	h, err := NewHasher(&wire.Reuse{HashKey: NewHashKey()})
	require.NoError(t, err)
	_, ok := h.Of(csv, line("only one field"))
	require.False(t, ok)
	_, err = NewHasher(&wire.Reuse{HashKey: "short"})
	require.Error(t, err)
	other, err := NewHasher(&wire.Reuse{HashKey: NewHashKey()})
	require.NoError(t, err)
	require.NotEqual(t, h.OfLine(true, []byte("x")), other.OfLine(true, []byte("x")), "each index has a key of its own")
}

// Blocks, ranges and notes that are not what was written are refused, and never panic.
func FuzzNotes(f *testing.F) {
	n := &Notes{}
	for i := range 300 {
		n.block.add(Digest{uint64(i), 1}, []byte("result\n"), i%7 == 0)
		if n.block.full() {
			n.encode()
		}
	}
	n.encode()
	n.matched.addAll(5, 10)
	n.matched.add(3)
	n.frame(ofRanges, n.matched.appendTo)
	f.Add(n.data)
	f.Fuzz(func(t *testing.T, data []byte) {
		var b block
		got := noteReader{buffer: bufio.NewReader(bytes.NewReader(data)), sums: true, ranges: func(ranges) error { return nil }}
		got.block = func(data []byte, h *head) error {
			if b.decode(data) == nil {
				require.Equal(t, h.count, b.count())
				for i := range b.count() {
					from, to := b.result(i)
					require.LessOrEqual(t, from, to)
				}
			}
			return nil
		}
		_, _ = got.frames()
	})
}

func TestRanges(t *testing.T) {
	t.Parallel()
	var r, got ranges
	for _, item := range []int64{5, 6, 7, 3, 100, 101, 8} {
		r.add(item)
	}
	require.Equal(t, ranges{{5, 3}, {3, 1}, {100, 2}, {8, 1}}, r)
	require.NoError(t, got.decode(r.appendTo(nil)))
	require.Equal(t, r, got)
	require.ErrorIs(t, got.decode([]byte{1, 2, 3}), errDamaged)
}
