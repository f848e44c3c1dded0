package inputs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// someInputs makes random inputs.
func someInputs(t *testing.T, n int) []store.Input {
	t.Helper()
	random := jobtest.Seeded(t, 3)
	var all []store.Input
	for i := range n {
		input := store.Input{URL: fmt.Sprintf("/data/%s/%d", strings.Repeat("x", random.IntN(4)), i)}
		input.Size = random.Int64N(smallInput)
		if random.IntN(2) == 0 {
			input.ETag = fmt.Sprint(random.Int64())
		}
		if random.IntN(4) > 0 {
			input.ModTime = time.Unix(random.Int64N(1<<40), random.Int64N(1e9))
		}
		all = append(all, input)
	}
	return all
}

func TestTable_Bundles(t *testing.T) {
	t.Parallel()
	want := someInputs(t, 2000)
	var table Table
	table.bundle(want[:1], wire.Shape{Format: records.Text})
	table.bundle(want[1:1000], wire.Shape{Format: records.Text})
	table.bundle(want[1000:], wire.Shape{Format: records.JSONL})
	access := &store.Access{}
	dir, err := access.Open(t.Context(), t.TempDir())
	require.NoError(t, err)
	require.NoError(t, WriteTable(t.Context(), dir, "sources", &table))

	got, err := New(access, nil).Table(t.Context(), dir, "sources")
	require.NoError(t, err)
	require.Len(t, got.Sources, 3)
	require.Equal(t, len(want), got.Count())
	i := 0
	for input, err := range got.Inputs() {
		require.NoError(t, err)
		require.Equal(t, want[i].URL, input.URL)
		require.True(t, want[i].Same(input.Info), input.URL)
		i++
	}
	require.Equal(t, len(want), i)
	require.Equal(t, table.totalBytes(), got.totalBytes())
}

// A list that is not what was written is an error, however it is broken.
func TestTable_BrokenBundle(t *testing.T) {
	t.Parallel()
	var table Table
	table.bundle(someInputs(t, 10), wire.Shape{Format: records.Text})
	whole := table.lists
	for n := range len(whole) {
		table.lists = whole[:n]
		_, err := table.members(&table.Sources[0])
		require.ErrorContains(t, err, "broken")
	}
	table.lists = whole
	table.Sources[0].Bundle.Inputs++
	_, err := table.members(&table.Sources[0])
	require.ErrorContains(t, err, "broken")
}

// Large inputs, compressed ones and single ones are sources of their own.
func TestList_Bundles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, size := range map[string]int{
		"a.txt": 1, "b.jsonl": 3, "c.jsonl": 3, "d.jsonl": smallInput + 1, "e.txt": 1, "f.txt": smallInput, "g.txt": 0,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(strings.Repeat("1", size)), 0o666))
	}
	table, err := New(&store.Access{}, nil).List(t.Context(), nil, wire.PlanInput{Spec: job.Spec{Files: &job.Files{Input: []string{dir}}}.WithDefaults()})
	require.NoError(t, err)
	var got []string
	for i := range table.Sources {
		members, err := table.members(&table.Sources[i])
		require.NoError(t, err)
		var names []string
		for _, m := range members {
			names = append(names, filepath.Base(m.URL))
		}
		got = append(got, strings.Join(names, " "))
	}
	require.Equal(t, []string{"a.txt", "b.jsonl c.jsonl", "d.jsonl", "e.txt f.txt g.txt"}, got)
}

// pairedAccess answers no look at an input until two are under way.
type pairedAccess struct {
	ledger.Access
	looks atomic.Int64
	two   chan struct{}
}

func (a *pairedAccess) StatInput(ctx context.Context, url string) (store.Info, error) {
	if a.looks.Add(1) == 2 {
		close(a.two)
	}
	select {
	case <-a.two:
	case <-ctx.Done():
		return store.Info{}, ctx.Err()
	}
	return a.Access.StatInput(ctx, url)
}

// A resumed job looks at its inputs beside each other.
func TestTakeOver_LooksAtInputsBesideEachOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 256 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d.txt", i)), []byte("x\n"), 0o666))
	}
	access := &pairedAccess{Access: &store.Access{}, two: make(chan struct{})}
	n := New(access, nil)
	table, err := n.List(t.Context(), nil, wire.PlanInput{Spec: job.Spec{Files: &job.Files{Input: []string{dir}}}.WithDefaults()})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	require.NoError(t, n.allUnchanged(ctx, table))
}

// A bundle that does not hold what an earlier run has read of it: the error names the input, and offsets in it.
func TestPlanner_InconsistentBundle(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a.txt", "b.txt"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("x\ny\n"), 0o666))
	}
	n := New(&store.Access{}, nil)
	table, err := n.List(t.Context(), nil, wire.PlanInput{Spec: job.Spec{Files: &job.Files{Input: []string{dir}}}.WithDefaults()})
	require.NoError(t, err)
	p := n.Dry(table)
	defer p.Close()
	p.skip = []wire.Batch{wire.Batch{Offset: 6, Length: 2, First: 5, Count: 1}.Sealed()}
	_, err = p.Next(t.Context(), 10, 1000)
	require.NoError(t, err, "what lies before it")
	_, err = p.Next(t.Context(), 10, 1000)
	require.ErrorContains(t, err, filepath.Join(dir, "b.txt"))
	require.ErrorContains(t, err, "expected item 5 at offset 2, found item 3 at offset 2")
}
