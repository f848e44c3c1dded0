package inputs

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// runsItems reads the first items of a batch, as many as there are, and returns what is left of it.
func runsItems(t *testing.T, n *Inputs, dir store.Dir, table *Table, batch wire.Batch, items int) (*wire.Batch, error) {
	t.Helper()
	r, err := n.OpenRange(t.Context(), dir, table, batch)
	require.NoError(t, err)
	defer r.Close()
	var chunk records.Chunk
	for items > 0 && r.Next(&chunk, items, 1<<20) == nil {
		r.Done(chunk.Items)
		items -= len(chunk.Items)
	}
	if err := r.Unchanged(t.Context()); err != nil {
		return nil, err
	}
	_, rest := r.Split()
	return rest, nil
}

// Other bytes in the middle of an input whose size and time are the same are found by each batch that has some of them,
// also if it is the rest of one; the other batches are run.
func TestD49_OtherBytesInTheMiddle(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 1 << 16 {
		fmt.Fprintf(&text, "line %6d\n\n", i)
	}
	large := text.String() // of 13 bytes each
	small := large[:300<<10]
	for name, files := range map[string]map[string]string{
		"one": {"b.jsonl": large + large}, "bundle": {"a.jsonl": "1\n2\n\n", "b.jsonl": small, "c.jsonl": "3\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := tree(t, files)
			dir, err := (&store.Access{}).Open(t.Context(), t.TempDir())
			require.NoError(t, err)
			n := New(&store.Access{}, nil)
			t.Cleanup(n.Close)
			in := wire.PlanInput{
				Ref: wire.Ref{Job: "job", Run: "run"}, Batches: 600,
				Spec: job.Spec{Files: &job.Files{Input: []string{at("")}}, BatchItems: 3000}.WithDefaults(),
			}
			plan, err := n.Plan(t.Context(), dir, in, n)
			require.NoError(t, err)
			batches, err := wire.DecodePage(plan.Page)
			require.NoError(t, err)
			table, err := n.Table(t.Context(), dir, plan.Sources)
			require.NoError(t, err)
			rests := map[int]*wire.Batch{}
			for i, b := range batches {
				require.NotZero(t, b.Digest)
				rest, err := runsItems(t, n, dir, table, b, 1<<20)
				require.NoError(t, err)
				require.Nil(t, rest)
				if b.Count > 1 {
					rests[i], err = runsItems(t, n, dir, table, b, 1)
					require.NoError(t, err)
					require.NotZero(t, rests[i].Digest)
				}
			}

			const changed = 70<<10 + 4 // in one of the blocks' gaps
			require.NoError(t, overwrite(at("b.jsonl"), changed, "X"))
			require.NoError(t, n.allUnchanged(t.Context(), table), "nothing else shows it")
			var found int
			for i, b := range batches {
				begin := b.Offset
				if name == "bundle" {
					begin -= int64(len(files["a.jsonl"]))
				}
				if begin > changed || begin+b.Length <= changed {
					_, err := runsItems(t, n, dir, table, b, 1<<20)
					require.NoError(t, err)
					continue
				}
				found++
				for what, again := range map[string]wire.Batch{"whole": b, "rest": *rests[i]} {
					for _, items := range []int{1, 1 << 20} {
						_, err := runsItems(t, n, dir, table, again, items)
						jobtest.RequireType(t, err, job.ErrorChanged)
						require.ErrorContains(t, err, "are not those that were planned, although its size and time are", what)
					}
				}
			}
			require.Equal(t, 1, found)
		})
	}
}

// overwrite writes text into a file, whose time it sets back.
func overwrite(file string, offset int64, text string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(text), offset); err != nil {
		return err
	}
	return os.Chtimes(file, info.ModTime(), info.ModTime())
}
