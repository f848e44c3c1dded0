package unique

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

var lineShape = wire.Shape{Format: records.Text, MaxItem: 1 << 20}

// pairsOf returns what a Finder finds among items.
func pairsOf(t *testing.T, items []string) (f *Finder, pairs []pair) {
	t.Helper()
	f = NewFinder(t.TempDir())
	t.Cleanup(f.Close)
	for _, item := range items {
		require.NoError(t, f.Add(&lineShape, &records.Item{Raw: []byte(item)}))
	}
	require.NoError(t, f.Each(func(twin, first int64) error {
		pairs = append(pairs, pair{twin, first})
		return nil
	}))
	return f, pairs
}

// twinsOf returns the same, by a map.
func twinsOf(items []string) (pairs []pair) {
	seen := map[string]int64{}
	for i, item := range items {
		if first, ok := seen[item]; ok {
			pairs = append(pairs, pair{int64(i), first})
		} else {
			seen[item] = int64(i)
		}
	}
	return pairs
}

func draw(t *testing.T, seed uint64, n, kinds int) []string {
	random := jobtest.Seeded(t, seed)
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprint("item ", random.IntN(kinds))
	}
	return items
}

// J6: The twins are those that a map finds, whatever lies in memory, in files, or is read several times.
func TestFinder_Random(t *testing.T) {
	before := maxDistinct
	t.Cleanup(func() { maxDistinct = before })
	for _, c := range []struct{ items, kinds, most int }{
		{0, 1, 10}, {1, 1, 10}, {1000, 1, 10}, {1000, 100_000, 2}, {10_000, 6000, 1}, {40_000, 24_000, 20}, {100_000, 500, 10}, {400_000, 300_000, 1 << 19},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			maxDistinct = c.most
			items := draw(t, 91, c.items, c.kinds)
			_, pairs := pairsOf(t, items)
			require.Equal(t, twinsOf(items), pairs)
		})
	}
}

// An item of another kind, or one that is not valid in its format, equals none.
func TestFinder_Equal(t *testing.T) {
	t.Parallel()
	f := NewFinder("")
	defer f.Close()
	csv := wire.Shape{Format: records.CSV, Columns: []string{"a", "b"}, MaxItem: 100}
	other := wire.Shape{Format: records.CSV, Columns: []string{"b", "a"}, MaxItem: 100}
	jsonl := wire.Shape{Format: records.JSONL, MaxItem: 100}
	for _, item := range []struct {
		shape *wire.Shape
		raw   string
	}{
		{&csv, "1,2"},                  // 0
		{&csv, `"1",2`},                // equals it
		{&other, "1,2"},                // other fields
		{&jsonl, `{"a":"1","b":"2"}`},  // the same object
		{&jsonl, `{"a": "1","b":"2"}`}, // other bytes
		{&lineShape, `{"a":"1","b":"2"}`},
		{&csv, "1"}, {&csv, "1"}, // not valid
	} {
		require.NoError(t, f.Add(item.shape, &records.Item{Raw: []byte(item.raw)}))
	}
	var pairs []pair
	require.NoError(t, f.Each(func(twin, first int64) error {
		pairs = append(pairs, pair{twin, first})
		return nil
	}))
	require.Equal(t, []pair{{1, 0}, {3, 0}}, pairs)
}

// J6: A list is read from anywhere, and one that is lost, cut or damaged gives fewer twins, and never a wrong one.
func TestList_Random(t *testing.T) {
	t.Parallel()
	random := jobtest.Seeded(t, 92)
	dir, err := new(store.Access).Open(t.Context(), t.TempDir())
	require.NoError(t, err)
	items := draw(t, 93, 30_000, 12_000)
	f, pairs := pairsOf(t, items)
	of, err := WriteList(t.Context(), dir, "run/equal-1", f)
	require.NoError(t, err)
	require.EqualValues(t, len(pairs), of.Count)
	require.EqualValues(t, len(items), of.Items)
	root, _ := dir.Local()
	path := filepath.Join(root, "run/equal-1")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Less(t, len(data), 6*len(pairs))
	look := func(from, to int64) (found []pair) {
		list, err := Open(t.Context(), dir, of)
		require.NoError(t, err)
		c := list.Cursor(context.Background(), from)
		some, err := c.Any(from, to)
		require.NoError(t, err)
		for o := from; o < to; o++ {
			first, ok, err := c.Find(o)
			require.NoError(t, err)
			if ok {
				found = append(found, pair{o, first})
			}
		}
		require.Equal(t, some, len(found) > 0)
		return found
	}
	within := func(from, to int64) (wanted []pair) {
		for _, p := range pairs {
			if p.twin >= from && p.twin < to {
				wanted = append(wanted, p)
			}
		}
		return wanted
	}
	for range 30 {
		from := random.Int64N(of.Items)
		to := from + random.Int64N(of.Items-from+1)
		require.Equal(t, within(from, to), look(from, to))
	}
	for range 60 {
		bad := slices.Clone(data)
		switch random.IntN(3) {
		case 0:
			bad = bad[:random.IntN(len(bad))]
		case 1:
			bad[random.IntN(len(bad))] ^= 1 << random.IntN(8)
		case 2:
			require.NoError(t, os.Remove(path))
			require.Empty(t, look(0, of.Items))
		}
		require.NoError(t, os.WriteFile(path, bad, 0o666))
		for _, p := range look(0, of.Items) {
			at, ok := slices.BinarySearchFunc(pairs, p, func(a, b pair) int { return cmp.Compare(a.twin, b.twin) })
			require.True(t, ok && pairs[at] == p, "%v", p)
		}
	}
	none, err := WriteList(t.Context(), dir, "run/equal-2", NewFinder(""))
	require.NoError(t, err)
	require.Nil(t, none)
}

// Outcomes are kept whatever their sizes, and found in any order.
func TestKept(t *testing.T) {
	t.Parallel()
	random := jobtest.Seeded(t, 94)
	k := &kept{firsts: &firsts{Seen: make([]uint64, 100)}}
	defer k.close()
	want := map[int64]outcome{}
	for o := int64(0); o < 6400; o++ {
		if random.IntN(3) == 0 {
			k.firsts.Add(o, 1)
			want[o] = outcome{result: make([]byte, random.IntN(1<<random.IntN(15))), lines: random.Int64N(3), again: random.IntN(2) == 0}
			for i := range want[o].result {
				want[o].result[i] = byte(random.IntN(256))
			}
			if random.IntN(4) == 0 {
				line := wire.ErrorLine{At: o, Failure: job.Failure{Input: json.RawMessage(`"x"`)}}
				want[o] = outcome{line: &line}
			}
		}
	}
	for o := int64(0); o < 6400; o++ {
		if k.firsts.Has(o) {
			require.NoError(t, k.add(want[o]))
		}
		if before := random.Int64N(o + 1); k.firsts.Has(before) {
			got, err := k.of(before)
			require.NoError(t, err)
			require.Equal(t, want[before].line, got.line)
			require.Equal(t, want[before].lines, got.lines)
			require.Equal(t, string(want[before].result), string(got.result))
			require.Equal(t, want[before].again, got.again)
		}
	}
	for o := int64(0); o < 6400; o++ {
		if !k.firsts.Has(o) {
			_, err := k.of(o)
			require.ErrorContains(t, err, "no outcome")
		}
	}
}
