package ledger

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// row makes n entries in a row, of a few items each.
func row(random *rand.Rand, n int) []wire.Entry {
	entries := make([]wire.Entry, n)
	next := wire.Batch{}
	for i := range entries {
		next.Count, next.Length = 1+random.Int64N(9), 10+random.Int64N(90)
		entries[i] = wire.Entry{Batch: next.Sealed(), Part: NewToken(), OK: next.Count}
		next = next.After(next.Count, next.Length)
	}
	return entries
}

// However the entries lie in manifests, and whichever of these name which, they come in the order of
// their ordinals, each once.
func TestEntries_InOrdinalOrder(t *testing.T) {
	t.Parallel()
	for round := range uint64(60) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			random := jobtest.Seeded(t, 9000+round)
			f := newShelf(t)
			want := row(random, 1+random.IntN(150))
			owner := map[string]string{} // of a part
			shuffle := random.IntN(3)    // none, nearby, all
			order := slices.Clone(want)
			switch shuffle {
			case 1:
				for i := range order {
					j := min(len(order)-1, i+random.IntN(20))
					order[i], order[j] = order[j], order[i]
				}
			case 2:
				order = jobtest.Shuffled(random, order)
			}
			var heads []string
			for _, group := range jobtest.Groups(random, order) {
				f.ref.Run = fmt.Sprintf("run-%d", random.IntN(3))
				for _, e := range group {
					owner[e.Part] = f.ref.Run
				}
				var previous []string
				for range random.IntN(3) {
					if len(heads) > 0 {
						previous, heads = append(previous, heads[0]), heads[1:]
					}
				}
				heads = append(heads, f.commit(previous, group...))
			}
			got := f.gather(jobtest.Shuffled(random, heads)...)
			require.Len(t, got, len(want))
			for i, e := range got {
				require.Equal(t, want[i], e.Entry)
				require.Equal(t, owner[e.Part], e.Owner)
			}
		})
	}
}

// A manifest that several others name is read once.
func TestChain_SharedManifest(t *testing.T) {
	t.Parallel()
	f := newShelf(t)
	all := row(jobtest.Seeded(t, 1), 4)
	root := f.commit(nil, all[0])
	left, right := f.commit([]string{root}, all[1]), f.commit([]string{root}, all[2])
	top := f.commit([]string{left, right, root}, all[3])
	require.Len(t, f.gather(top), 4)
	require.Len(t, f.gather(top, top, left), 4)
	require.Empty(t, f.gather())
}

func TestChain_Broken(t *testing.T) {
	t.Parallel()
	f := newShelf(t)
	dir := f.dir
	ctx := t.Context()
	_, err := Chain(ctx, dir, []string{"run-1/manifests/none.jsonl"})
	jobtest.RequireType(t, err, job.ErrorBooks)

	head := f.commit([]string{"run-1/manifests/gone.jsonl"}, row(jobtest.Seeded(t, 1), 1)...)
	_, err = Chain(ctx, dir, []string{head})
	jobtest.RequireType(t, err, job.ErrorBooks)
	require.ErrorContains(t, err, "gone.jsonl")

	good := f.commit(nil, row(jobtest.Seeded(t, 1), 3)...)
	data, err := dir.Get(ctx, good)
	require.NoError(t, err)
	first := strings.IndexByte(string(data), '\n') + 1
	for name, content := range map[string]string{
		"empty": "", "no json": "manifest\n", "head cut": string(data[:first/2]),
		"entries cut": string(data[:len(data)-5]), "an entry missing": string(data[:first]),
	} {
		require.NoError(t, dir.Put(ctx, "run-1/manifests/bad.jsonl", []byte(content)))
		links, err := Chain(ctx, dir, []string{"run-1/manifests/bad.jsonl"})
		if err == nil {
			err = Entries(ctx, dir, links, func(OwnedEntry) error { return nil })
		}
		require.Error(t, err, name)
		jobtest.RequireType(t, err, job.ErrorCorrupt)
	}
}

// countingDir counts the manifests that have been opened to their ends.
type countingDir struct {
	store.Dir
	opened int
}

func (d *countingDir) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	d.opened++
	return d.Dir.Open(ctx, key, offset, length)
}

// An entry whose batch is not what was cut is not written. One that lies in a manifest all the same accounts for
// nothing: the books have a gap, and a resumed job fills it.
func TestD1_DamagedEntries(t *testing.T) {
	t.Parallel()
	f := newShelf(t)
	first, second := wire.Batch{Length: 10, Count: 1}.Sealed(), wire.Batch{Offset: 10, Length: 10, First: 1, Count: 1}.Sealed()
	moved := second
	moved.Offset = 0
	_, err := WriteManifest(t.Context(), f.dir, f.ref, 0, nil, []wire.Entry{{Batch: first, OK: 1}, {Batch: moved, OK: 1}}, wire.Besides{})
	jobtest.RequireType(t, err, job.ErrorDamaged)
	_, err = WriteManifest(t.Context(), f.dir, f.ref, 0, nil, []wire.Entry{{Batch: first, OK: 1}}, wire.Besides{Between: []wire.Batch{moved}})
	jobtest.RequireType(t, err, job.ErrorDamaged)

	head := f.commit(nil, wire.Entry{Batch: first, OK: 1, Part: "a"}, wire.Entry{Batch: second, OK: 1, Part: "b"})
	data, err := f.dir.Get(t.Context(), head)
	require.NoError(t, err)
	damaged := bytes.Replace(data, []byte(`"o":10,`), nil, 1)
	require.NotEqual(t, data, damaged)
	require.NoError(t, f.dir.Put(t.Context(), head, damaged))
	got := f.gather(head)
	require.Len(t, got, 1)
	require.Equal(t, first, got[0].Batch)
	links, err := Chain(t.Context(), f.dir, []string{head})
	require.NoError(t, err)
	_, err = CheckBooks(t.Context(), f.dir, links, 2)
	jobtest.RequireType(t, err, job.ErrorBooks)
}

// A store that is lost in the middle of a manifest has not damaged it: it is read again.
func TestEntries_StoreIsLost(t *testing.T) {
	t.Parallel()
	f := newShelf(t)
	head := f.commit(nil, wire.Entry{OK: 1, Batch: wire.Batch{Count: 1}.Sealed()}, wire.Entry{OK: 1, Batch: wire.Batch{First: 1, Count: 1}.Sealed()})
	links, err := Chain(t.Context(), f.dir, []string{head})
	require.NoError(t, err)
	data, err := f.dir.Get(t.Context(), head)
	require.NoError(t, err)
	for n := range len(data) - 1 {
		lost := lostAfter{f.dir, int64(n)}
		err := Entries(t.Context(), lost, links, func(OwnedEntry) error { return nil })
		var app *Judged
		require.ErrorAs(t, err, &app)
		require.Equal(t, job.ErrorOutage, app.Type(), "after %d bytes: %v", n, err)
		require.ErrorIs(t, err, syscall.ECONNRESET)
	}
}

// lostAfter is a store of whose objects only so many bytes can be read.
type lostAfter struct {
	store.Dir
	bytes int64
}

func (d lostAfter) Open(ctx context.Context, key string, offset, _ int64) (io.ReadCloser, error) {
	r, err := d.Dir.Open(ctx, key, offset, d.bytes)
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(r, iotest.ErrReader(&store.OpError{Op: "reading", Where: key, Err: syscall.ECONNRESET})), r}, err
}

// G8: memory holds the entries of a few manifests, however many there are: those of a manifest
// are given before the next but one is read, as long as no more than two legs overlap.
func TestEntries_Memory(t *testing.T) {
	t.Parallel()
	const manifests, each = 60, 50
	f := newShelf(t)
	all := row(jobtest.Seeded(t, 2), manifests*each)
	// As legs commit: the last batches of one end among the first of the next.
	for i := each; i < len(all); i += each {
		all[i-1], all[i+1] = all[i+1], all[i-1]
	}
	var previous []string
	for i := 0; i < len(all); i += each {
		previous = []string{f.commit(previous, all[i:i+each]...)}
	}
	dir := &countingDir{Dir: f.dir}
	links, err := Chain(t.Context(), dir, previous)
	require.NoError(t, err)
	require.Equal(t, manifests, dir.opened)
	dir.opened = 0
	given := 0
	require.NoError(t, Entries(t.Context(), dir, links, func(e OwnedEntry) error {
		require.LessOrEqual(t, dir.opened*each-given, 3*each, "entries held after %d", given)
		given++
		return nil
	}))
	require.Equal(t, len(all), given)
	require.Equal(t, manifests, dir.opened, "each is read once")
}

func TestEntries_StopsWhenTold(t *testing.T) {
	t.Parallel()
	f := newShelf(t)
	all := row(jobtest.Seeded(t, 3), 10)
	head := f.commit([]string{f.commit(nil, all[:5]...)}, all[5:]...)
	dir := f.dir
	links, err := Chain(t.Context(), dir, []string{head})
	require.NoError(t, err)
	for stop := range 10 {
		n := 0
		err := Entries(t.Context(), dir, links, func(OwnedEntry) error {
			if n++; n > stop {
				return io.ErrClosedPipe
			}
			return nil
		})
		require.ErrorIs(t, err, io.ErrClosedPipe)
		require.Equal(t, stop+1, n)
	}
}

// V1: a manifest of a version of the logic that a worker does not know is left to another worker.
func TestManifest_NewerLogic(t *testing.T) {
	t.Parallel()
	shelf := newShelf(t)
	random := rand.New(rand.NewPCG(1, 1))
	for logic, known := range map[int]bool{0: true, wire.LogicVersion: true, 99: false} {
		shelf.ref.Logic = logic
		key, err := WriteManifest(t.Context(), shelf.dir, shelf.ref, logic, nil, row(random, 3), wire.Besides{})
		require.NoError(t, err)
		_, err = ReadHead(t.Context(), shelf.dir, key)
		if known {
			require.NoError(t, err)
			continue
		}
		var judged *Judged
		require.ErrorAs(t, err, &judged)
		require.Equal(t, job.ErrorOutage, judged.Type())
		require.ErrorContains(t, err, "needs stint ≥ 0.99")
	}
}
