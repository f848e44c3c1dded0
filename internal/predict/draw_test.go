package predict

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

func packed(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

func TestDraw(t *testing.T) {
	t.Parallel()
	random := jobtest.Seeded(t, 11)
	require.Equal(t, []int64{0, 1, 2}, draw(random, 3, 3))
	require.Equal(t, []int64{0, 1, 2}, draw(random, 3, 100), "all, if there are no more")
	require.Empty(t, draw(random, 0, 5))
	const total, n, times = 20, 5, 4000
	var drawn [total]int
	for range times {
		ordinals := draw(random, total, n)
		require.Len(t, ordinals, n)
		require.True(t, slices.IsSorted(ordinals))
		require.Len(t, slices.Compact(ordinals), n, "none twice")
		for _, i := range ordinals {
			drawn[i]++
		}
	}
	for i, k := range drawn { // 1,000 each, give or take six times the deviation of 27
		require.InDelta(t, times*n/total, k, 165, "item %d", i)
	}
}

// items reads what a handler of JSON gets of a job's inputs: values, or errors.
func (f *fixture) items(spec job.Spec) (all []string) {
	f.t.Helper()
	spec.Store = "none"
	survey := taken(f.t, spec, "")
	from := inputs.New(&store.Access{}, nil)
	defer from.Close()
	for i := range survey.table.Sources {
		reader, err := from.DryRange(f.t.Context(), survey.table, i, survey.sources[i].items)
		require.NoError(f.t, err)
		defer reader.Close()
		var chunk records.Chunk
		for err = reader.Next(&chunk, 100, 1<<20); err == nil; err = reader.Next(&chunk, 100, 1<<20) {
			convert := calls.Conversion{Form: calls.CheckedJSON, Shape: reader.Shape()}
			for k := range chunk.Items {
				value, err := convert.Convert(&chunk.Items[k])
				if err != nil {
					value = []byte(err.Error())
				}
				all = append(all, string(value))
			}
		}
		require.ErrorIs(f.t, err, io.EOF)
	}
	return all
}

// odd are inputs of all formats, with items that are hard to copy.
var odd = []string{
	"a.jsonl", jobtest.Lines(300) + "not JSON\n[1,\n{\n",
	"b.csv", "n,\"a \"\"b\"\", c\"\r\n" + strings.Repeat("x,\"1\n2\"\r\n", 300) + "few\n\"open,1\n",
	"c.txt", strings.Repeat("line\n\n  \r\n", 100),
	"d.tsv", "n\tm\n" + strings.Repeat("\"x\ty\n", 100),
	"e.json", "[\n" + strings.Repeat("{\"a\": 1,\n\"b\": [2]},\n", 100) + ",\n3]",
	"f.json", strings.Repeat("{\"a\":\n1}\n", 100) + "{\"a\" 1}\n",
	"g.json", "[1]\n[2]\n[3]\n",
}

// The sample's items are those of the job, in their order, wherever they lie and whatever the input is packed in.
func TestDraw_ItemsFromAllOverTheInput(t *testing.T) {
	t.Parallel()
	f := setup(t, odd...)
	f.spec.Files.Input = append(f.spec.Files.Input, f.write("h.jsonl.gz", packed(t, jobtest.Lines(300))))
	f.spec.MaxItem = 1000
	all := f.items(f.spec)
	d := f.draw(500)
	require.Equal(t, 500, d.sample.Items)
	require.Len(t, d.ordinals, 500-int(d.sample.Failed))
	require.True(t, slices.IsSorted(d.ordinals))
	quarters := [4]int{}
	var want []string
	for _, ordinal := range d.ordinals {
		quarters[int(ordinal)*4/len(all)]++
		want = append(want, all[ordinal])
	}
	for _, n := range quarters {
		require.Greater(t, n, 80)
	}
	require.Equal(t, want, f.items(d.Job))
	require.NoDirExists(t, f.spec.Store, "nothing is written there")
}

// With all items drawn each one is there, or has failed because it cannot be copied; the others fail as in the job.
func TestDraw_AllItems(t *testing.T) {
	t.Parallel()
	for i := 0; i < len(odd); i += 2 {
		for _, format := range []string{"auto", "text"} {
			t.Run(odd[i]+" "+format, func(t *testing.T) {
				t.Parallel()
				f := setup(t, odd[i], odd[i+1])
				f.spec.Format = format
				all := f.items(f.spec)
				d := f.draw(10_000)
				require.Equal(t, len(all), d.sample.Items)
				require.Len(t, d.ordinals, len(all)-int(d.sample.Failed))
				copied := f.items(d.Job)
				for k, ordinal := range d.ordinals {
					require.Equal(t, all[ordinal], copied[k], "item %d", ordinal)
				}
				if first := d.sample.FirstError; first != nil {
					require.Equal(t, all[first.Item], first.Error.Message)
					require.Equal(t, job.KindInvalid, first.Kind)
				}
			})
		}
	}
}

// The small job does what the whole one does with each item, and nothing else.
func TestDraw_SmallJob(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(1000))
	f.spec.ItemAttempts, f.spec.Flatten, f.spec.JobRate, f.spec.MaxFailed, f.spec.Init = 7, true, 1, "1", []string{"hook"}
	for items, batch := range map[int]int64{1: 1, 2: 2, 20: 10, 100: 9, 1000: 84} {
		s := f.draw(items).Job
		require.Equal(t, batch, s.BatchItems, "of %d", items)
		require.Equal(t, 7, s.ItemAttempts)
		require.True(t, s.Flatten)
		require.Empty(t, s.Output+s.Errors+s.Store+string(s.MaxFailed))
		require.Empty(t, s.Init)
		require.Zero(t, s.JobRate)
	}
	f.spec.Files.Input = []string{f.write("empty.csv", "a,b\n")}
	s := f.draw(10).Job
	require.Len(t, s.Files.Input, 1, "so that the handler is started")
	data, err := os.ReadFile(s.Files.Input[0])
	require.NoError(t, err)
	require.Empty(t, data)
}

func TestDraw_InputThatHasChanged(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(50))
	before := f.survey()
	f.write("in.jsonl", jobtest.Lines(10))
	_, err := Draw(t.Context(), &store.Access{}, before, f.spec, SampleOptions{Items: 50, Parallel: 2})
	require.ErrorContains(t, err, "changed while")
}
