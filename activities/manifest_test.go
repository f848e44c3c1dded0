package activities

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// row makes n entries in a row, of a few items each.
func row(random *rand.Rand, n int) []Entry {
	entries := make([]Entry, n)
	next := job.Batch{}
	for i := range entries {
		next.Count, next.Length = 1+random.Int64N(9), 10+random.Int64N(90)
		entries[i] = Entry{Batch: next, Part: newToken(), OK: next.Count}
		next = next.After(next.Count, next.Length)
	}
	return entries
}

// gather collects what entries yields.
func (f *fixture) gather(heads ...string) []ownedEntry {
	f.t.Helper()
	dir := f.store()
	links, err := chain(context.Background(), dir, heads)
	require.NoError(f.t, err)
	var all []ownedEntry
	require.NoError(f.t, entries(context.Background(), dir, links, func(e ownedEntry) error {
		all = append(all, e)
		return nil
	}))
	return all
}

// However the entries lie in manifests, and whichever of these name which, they come in the order of
// their ordinals, each once.
func TestEntries_InOrdinalOrder(t *testing.T) {
	t.Parallel()
	for round := range uint64(60) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			random := seeded(t, 9000+round)
			f := setup(t)
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
				order = shuffled(random, order)
			}
			var heads []string
			for _, group := range groups(random, order) {
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
			got := f.gather(shuffled(random, heads)...)
			require.Len(t, got, len(want))
			for i, e := range got {
				require.Equal(t, want[i], e.Entry)
				require.Equal(t, owner[e.Part], e.run)
			}
		})
	}
}

// A manifest that several others name is read once.
func TestChain_SharedManifest(t *testing.T) {
	t.Parallel()
	f := setup(t)
	all := row(seeded(t, 1), 4)
	root := f.commit(nil, all[0])
	left, right := f.commit([]string{root}, all[1]), f.commit([]string{root}, all[2])
	top := f.commit([]string{left, right, root}, all[3])
	require.Len(t, f.gather(top), 4)
	require.Len(t, f.gather(top, top, left), 4)
	require.Empty(t, f.gather())
}

func TestChain_Broken(t *testing.T) {
	t.Parallel()
	f := setup(t)
	dir := f.store()
	ctx := t.Context()
	_, err := chain(ctx, dir, []string{"run-1/manifests/none.jsonl"})
	requireType(t, err, job.ErrorBooks)

	head := f.commit([]string{"run-1/manifests/gone.jsonl"}, row(seeded(t, 1), 1)...)
	_, err = chain(ctx, dir, []string{head})
	requireType(t, err, job.ErrorBooks)
	require.ErrorContains(t, err, "gone.jsonl")

	good := f.commit(nil, row(seeded(t, 1), 3)...)
	data, err := dir.Get(ctx, good)
	require.NoError(t, err)
	first := strings.IndexByte(string(data), '\n') + 1
	for name, content := range map[string]string{
		"empty": "", "no json": "manifest\n", "head cut": string(data[:first/2]),
		"entries cut": string(data[:len(data)-5]), "an entry missing": string(data[:first]),
	} {
		require.NoError(t, dir.Put(ctx, "run-1/manifests/bad.jsonl", []byte(content)))
		links, err := chain(ctx, dir, []string{"run-1/manifests/bad.jsonl"})
		if err == nil {
			err = entries(ctx, dir, links, func(ownedEntry) error { return nil })
		}
		require.Error(t, err, name)
		requireType(t, err, job.ErrorCorrupt)
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

// G8: memory holds the entries of a few manifests, however many there are: those of a manifest
// are given before the next but one is read, as long as no more than two legs overlap.
func TestEntries_Memory(t *testing.T) {
	t.Parallel()
	const manifests, each = 60, 50
	f := setup(t)
	all := row(seeded(t, 2), manifests*each)
	// As legs commit: the last batches of one end among the first of the next.
	for i := each; i < len(all); i += each {
		all[i-1], all[i+1] = all[i+1], all[i-1]
	}
	var previous []string
	for i := 0; i < len(all); i += each {
		previous = []string{f.commit(previous, all[i:i+each]...)}
	}
	dir := &countingDir{Dir: f.store()}
	links, err := chain(t.Context(), dir, previous)
	require.NoError(t, err)
	require.Equal(t, manifests, dir.opened)
	dir.opened = 0
	given := 0
	require.NoError(t, entries(t.Context(), dir, links, func(e ownedEntry) error {
		require.LessOrEqual(t, dir.opened*each-given, 3*each, "entries held after %d", given)
		given++
		return nil
	}))
	require.Equal(t, len(all), given)
	require.Equal(t, manifests, dir.opened, "each is read once")
}

func TestEntries_StopsWhenTold(t *testing.T) {
	t.Parallel()
	f := setup(t)
	all := row(seeded(t, 3), 10)
	head := f.commit([]string{f.commit(nil, all[:5]...)}, all[5:]...)
	dir := f.store()
	links, err := chain(t.Context(), dir, []string{head})
	require.NoError(t, err)
	for stop := range 10 {
		n := 0
		err := entries(t.Context(), dir, links, func(ownedEntry) error {
			if n++; n > stop {
				return io.ErrClosedPipe
			}
			return nil
		})
		require.ErrorIs(t, err, io.ErrClosedPipe)
		require.Equal(t, stop+1, n)
	}
}

func TestCommit(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.ref.Sources = "run-1/sources-x.json"
	all := row(seeded(t, 4), 5)
	in := CommitInput{Ref: f.ref, Leg: 7, Previous: []string{"run-1/manifests/before.jsonl"}, Entries: shuffled(seeded(t, 5), all)}
	first, err := f.acts.Commit(t.Context(), in)
	require.NoError(t, err)
	second, err := f.acts.Commit(t.Context(), in)
	require.NoError(t, err)
	require.NotEqual(t, first.Manifest, second.Manifest, "a repetition writes an object of its own")
	require.True(t, strings.HasPrefix(first.Manifest, "run-1/manifests/"))

	head, err := readHead(t.Context(), f.store(), first.Manifest)
	require.NoError(t, err)
	require.Equal(t, manifestHead{
		Run: "run-1", Leg: 7, Sources: f.ref.Sources, Previous: in.Previous, First: all[0].First, Entries: 5,
	}, head)
}

func TestCommit_Fails(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("out.jsonl.stint", "a file in the place of the store")
	_, err := f.acts.Commit(t.Context(), CommitInput{Ref: f.ref, Entries: row(seeded(t, 6), 1)})
	requireType(t, err, job.ErrorOutput)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f = setup(t)
	_, err = f.acts.Commit(ctx, CommitInput{Ref: f.ref, Entries: row(seeded(t, 6), 1)})
	require.ErrorIs(t, err, context.Canceled)
}
