package activities

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// corpus makes n random items of a format with all that may lie between them.
func corpus(random *rand.Rand, format wire.Format, n int) string {
	var b strings.Builder
	if random.IntN(4) == 0 {
		b.WriteString("\uFEFF")
	}
	if format == records.CSV {
		b.WriteString("id,text\n")
	}
	ends := []string{"\n", "\n", "\n", "\r\n", "\n\n", "\n \t\r\n\n"}
	if format == records.Text {
		ends = ends[:4] // its empty lines are items
	}
	for i := range n {
		word := strings.Repeat("x", random.IntN(40))
		switch format {
		case records.CSV:
			if random.IntN(3) == 0 {
				word = "\"two\n\"\"lines\"\" " + word + "\""
			}
			fmt.Fprintf(&b, "%d,%s", i, word)
		case records.JSONL:
			fmt.Fprintf(&b, `{"id":%d,"text":%q}`, i, word)
		default:
			fmt.Fprintf(&b, "%d %s", i, word)
		}
		if i < n-1 || random.IntN(3) > 0 { // the last line may have no end
			b.WriteString(ends[random.IntN(len(ends))])
		}
	}
	return b.String()
}

// arrayOf makes an array of lines of JSON, each on one line or on several.
func arrayOf(random *rand.Rand, lines string) string {
	var b strings.Builder
	b.WriteString("[\n")
	separator := ""
	for line := range strings.Lines(strings.TrimPrefix(lines, "\uFEFF")) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		b.WriteString(separator)
		if separator = ",\n  "; random.IntN(2) == 0 {
			separator = "\n, "
		}
		b.WriteString(strings.ReplaceAll(line, ",", []string{",", ",\n\t"}[random.IntN(2)]))
	}
	b.WriteString("\n]\n")
	return b.String()
}

// requireTiles fails unless the batches, in this order, tile items and, within a source, bytes.
func requireTiles(t *testing.T, batches []wire.Batch, items int64) {
	t.Helper()
	var before wire.Batch
	for i, b := range batches {
		require.Positive(t, b.Count)
		require.Positive(t, b.Length)
		require.Equal(t, before.End(), b.First, "batch %d", i)
		if i > 0 && b.Source == before.Source {
			require.Equal(t, before.Offset+before.Length, b.Offset, "batch %d", i)
		} else {
			require.True(t, i == 0 || b.Source > before.Source, "batch %d", i)
		}
		before = b
	}
	require.Equal(t, items, before.End())
}

// itemsIn reads what the batches hold, each range by itself.
func (f *fixture) itemsIn(batches []wire.Batch) []string {
	f.t.Helper()
	dir := f.store()
	table, err := f.acts.inputs.Table(context.Background(), dir, f.ref.Sources)
	require.NoError(f.t, err)
	var items []string
	for _, b := range batches {
		r, err := f.acts.inputs.OpenRange(context.Background(), dir, table, b)
		require.NoError(f.t, err)
		found := itemsOfRange(f.t, r)
		r.Close()
		require.Len(f.t, found, int(b.Count), "%v", b)
		items = append(items, found...)
	}
	return items
}

func TestPlan_Tiles(t *testing.T) {
	t.Parallel()
	const seed = 7
	for ext, format := range map[string]wire.Format{"jsonl": records.JSONL, "csv": records.CSV, "txt": records.Text, "tsv": records.CSV, "json": records.JSONL, "array.json": records.JSONL} {
		t.Run(ext, func(t *testing.T) {
			t.Parallel()
			for round := range jobtest.Rounds(25) {
				random := jobtest.Seeded(t, seed+round)
				var files []string
				var want []string
				for i := range 1 + random.IntN(3) {
					text := corpus(random, format, random.IntN(120))
					switch ext {
					case "tsv":
						text = strings.ReplaceAll(text, ",", "\t")
					case "array.json":
						text = arrayOf(random, text)
					}
					files = append(files, fmt.Sprintf("in-%d.%s", i, ext), text)
					shape, err := records.FormatOf("in." + ext)
					require.NoError(t, err)
					head, err := records.Look(strings.NewReader(text), shape)
					require.NoError(t, err)
					want = append(want, itemsOf(t, strings.NewReader(text[head.Start:]), head.Shape)...)
				}
				f := setup(t, files...)
				f.spec.BatchItems = int64(random.IntN(12)) // 0: automatic
				if random.IntN(3) == 0 {
					f.spec.BatchBytes = 1 + random.Int64N(500)
				}
				var batches []wire.Batch
				for {
					if random.IntN(4) == 0 {
						f.serve(&callstest.Handler{}, Options{}) // another worker continues
					}
					page, result := f.page(1 + random.IntN(9))
					batches = append(batches, page...)
					if result.Done {
						break
					}
				}
				requireTiles(t, batches, int64(len(want)))
				require.Equal(t, want, f.itemsIn(batches))
				for _, b := range batches {
					if f.spec.BatchItems > 0 {
						require.LessOrEqual(t, b.Count, f.spec.BatchItems)
					}
				}
			}
		})
	}
}

func TestPlan_SameOnEveryWorker(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(1000))
	f.spec.BatchItems = 10
	whole := f.plan()
	require.Len(t, whole, 100)

	f.newRun("run-2")
	var pages []wire.Batch
	for {
		f.serve(&callstest.Handler{}, Options{})
		page, result := f.page(7)
		pages = append(pages, page...)
		if result.Done {
			break
		}
	}
	require.Equal(t, whole, pages)
}

// A page whose answer got lost is planned again from the same cursor, with the same outcome.
func TestPlan_Repeated(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(100))
	f.spec.BatchItems = 5
	f.page(3)
	at := f.next
	first, _ := f.page(3)
	f.page(3)
	f.next = at
	again, _ := f.page(3)
	require.Equal(t, first, again)
}

func TestPlan_FirstPage(t *testing.T) {
	t.Parallel()
	f := setup(t, "a.jsonl", jobtest.Lines(10), "b.csv", "id\n1\n2\n")
	f.spec.BatchItems = 4
	batches, result := f.page(2)
	require.Len(t, batches, 2)
	require.False(t, result.Done)
	require.NotEmpty(t, result.Sources)
	require.EqualValues(t, len(jobtest.Lines(10))+len("1\n2\n"), result.Total, "headers are no items")
	require.Equal(t, fmt.Sprint("run-1 born ", f.ref.Born), f.mustGet(ledger.CurrentKey), "the run has claimed the store")
	require.Equal(t, wire.Cursor{Offset: batches[1].Offset + batches[1].Length, Item: 8}, result.Next)

	batches, result = f.page(1000)
	require.Len(t, batches, 2)
	require.True(t, result.Done)
	require.Empty(t, result.Sources, "only the first page tells")
	require.EqualValues(t, 12, result.Next.Item)
}

func TestPlan_NothingToDo(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"", "\n", " \n\t\r\n", "\uFEFF"} {
		f := setup(t, "in.jsonl", content, "more.jsonl", content)
		batches, result := f.page(16)
		require.Empty(t, batches)
		require.Empty(t, result.Page)
		require.True(t, result.Done)
		require.Zero(t, result.Next.Item)
	}
}

func TestPlan_Formats(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file, content string
		format              string
		items               int64
		kind, problem       string // of the error
	}{
		{"jsonl", "in.jsonl", "1\n2\n", "", 2, "", ""},
		{"json", "in.json", "1\n2\n", "", 2, "", ""},
		{"json array", "in.json", "[\n{\n},\n2]", "", 2, "", ""},
		{"json array by option", "in.weird", "[1,2]", "json", 2, "", ""},
		{"json array, empty", "in.json", "[]", "", 0, "", ""},
		{"json values", "in.json", "{\n\"a\": 1\n}\n{\n}", "", 2, "", ""},
		{"array as lines", "in.json", "[1,2]", "jsonl", 1, "", ""},
		{"arrays on lines", "in.json", "[1,2]\n[3,4]\n[5,6]\n", "", 3, "", ""},
		{"json array not closed", "in.json", "[1,\n2,\n", "", 0, job.ErrorInput, "in.json is not one JSON array: at byte 7, the input ends, and its array is not closed"},
		{"json array and more", "in.json", "[1,\n2]\n[3]", "", 0, job.ErrorInput, "in.json is not one JSON array: at byte 7, something follows the end of the array"},
		{"tsv", "in.tsv", "n\tm\n1\t\n\t\n", "", 2, "", ""},
		{"tsv by option", "in.weird", "n\tm\n1\t2\n", "tsv", 1, "", ""},
		{"text", "in.log", "1\n2\n", "", 2, "", ""},
		{"csv", "in.csv", "n\n1\n2\n", "", 2, "", ""},
		{"by option", "in.weird", "1\n2\n", "text", 2, "", ""},
		{"option before extension", "in.csv", "n\n1\n2\n", "text", 3, "", ""},
		{"unknown extension", "in.weird", "1\n", "", 0, job.ErrorInvalid, "--format"},
		{"no extension", "data", "1\n", "", 0, job.ErrorInvalid, "--format"},
		{"unknown format", "in.jsonl", "1\n", "parquet", 0, job.ErrorInvalid, "parquet"},
		{"bad header", "in.csv", "n,n\n1,2\n", "", 0, job.ErrorInput, "header"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, test.file, test.content)
			if test.format != "" {
				f.spec.Format = test.format
			}
			result, err := f.acts.Plan(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 16})
			if test.kind != "" {
				jobtest.RequireType(t, err, test.kind)
				require.ErrorContains(t, err, test.problem)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.items, result.Next.Item)
		})
	}
}

func TestPlan_MissingInput(t *testing.T) {
	t.Parallel()
	for name, input := range map[string]string{"file": "none.jsonl", "glob": "none-*.jsonl", "directory": "none/"} {
		f := setup(t)
		f.spec.Files.Input = []string{f.path(input)}
		_, err := f.acts.Plan(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 16})
		require.Error(t, err, name)
		jobtest.RequireType(t, err, job.ErrorInput)
	}
}

func TestPlan_ExpandsInputs(t *testing.T) {
	t.Parallel()
	f := setup(t, "b.txt", "b\n")
	f.write("dir/2.txt", "2\n")
	f.write("dir/1.txt", "1\n")
	f.write("glob/x-9.txt", "9\n")
	f.write("glob/x-10.txt", "10\n")
	f.spec.Files.Input = []string{f.path("b.txt"), f.path("dir") + "/", f.path("glob/x-*.txt"), f.path("b.txt")}
	require.Equal(t, []string{"b", "1", "2", "10", "9", "b"}, f.itemsIn(f.plan()), "in the order given, then by name")
}

func TestPlan_InputChanged(t *testing.T) {
	t.Parallel()
	t.Run("before the next page", func(t *testing.T) {
		t.Parallel()
		f := setup(t, "in.jsonl", jobtest.Lines(1000))
		f.spec.BatchItems = 10
		f.page(5)
		f.change("in.jsonl")
		var err error
		for err == nil {
			var result wire.PlanResult
			result, err = f.acts.Plan(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, From: f.next, Batches: 1000})
			require.False(t, result.Done, "it has been noticed at the end of the input at the latest")
			f.next = result.Next
		}
		jobtest.RequireType(t, err, job.ErrorChanged)
		require.ErrorContains(t, err, "in.jsonl")
	})
	t.Run("before the job is resumed", func(t *testing.T) {
		t.Parallel()
		f := setup(t, "in.jsonl", jobtest.Lines(100))
		f.spec.BatchItems = 10
		batches := f.plan()
		head := f.commit(nil, f.processAll(batches[:3])...)
		f.change("in.jsonl")
		f.newRun("run-2")
		in := wire.PlanInput{Ref: f.ref, Spec: f.spec, Resume: []string{head}, Batches: 1000}
		_, err := f.acts.Plan(t.Context(), in)
		jobtest.RequireType(t, err, job.ErrorChanged)

		// The error has the command that gives a file which was put back its time.
		command := regexp.MustCompile(`\((touch -d .*?)\)`).FindStringSubmatch(err.Error())
		require.NotNil(t, command, err)
		require.NoError(t, exec.Command("sh", "-c", command[1]).Run())
		_, err = f.acts.Plan(t.Context(), in)
		require.NoError(t, err)
	})
}

// change gives a file another time of its last change, and nothing else.
func (f *fixture) change(name string) {
	f.t.Helper()
	info, err := os.Stat(f.path(name))
	require.NoError(f.t, err)
	at := info.ModTime().Add(time.Second)
	require.NoError(f.t, os.Chtimes(f.path(name), at, at))
}

func TestPlan_Hurry(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(200_000))
	f.spec.BatchItems = 1000
	in := wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 1000, Hurry: time.Nanosecond}
	result, err := f.acts.Plan(t.Context(), in)
	require.NoError(t, err)
	batches, err := wire.DecodePage(result.Page)
	require.NoError(t, err)
	require.NotEmpty(t, batches, "there is always one")
	require.Less(t, len(batches), 200, "the page ends early")
	require.False(t, result.Done)

	in.Ref.Sources, in.From, in.Hurry = result.Sources, result.Next, 0
	result, err = f.acts.Plan(t.Context(), in)
	require.NoError(t, err)
	rest, err := wire.DecodePage(result.Page)
	require.NoError(t, err)
	requireTiles(t, append(batches, rest...), 200_000)
}

func TestPlan_Cancelled(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(10))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.acts.Plan(ctx, wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 16})
	require.ErrorIs(t, err, context.Canceled)
}

// Whatever step of it fails, Plan can be repeated.
func TestPlan_RepeatableAtEveryStep(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"in.jsonl", "in.jsonl.gz"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content := jobtest.Lines(300)
			if strings.HasSuffix(name, ".gz") {
				var gz bytes.Buffer
				w := gzip.NewWriter(&gz)
				_, _ = io.WriteString(w, content)
				require.NoError(t, w.Close())
				content = gz.String()
			}
			for step := 0; ; step++ {
				f := setup(t, name, content)
				f.spec.BatchItems = 40
				ctx := jobtest.NewFuse(step)
				in := wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 16}
				_, err := f.acts.Plan(ctx, in)
				if !ctx.Burnt() {
					require.NoError(t, err)
					require.Greater(t, step, 3)
					return
				}
				requireTiles(t, f.plan(), 300)
			}
		})
	}
}

// A compressed input that grows beyond max-input, or a standard input that does not end, fails the job and leaves
// no copy of what is beyond.
func TestPlan_MaxInput(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("x\n", 500)
	for _, c := range []struct {
		name, input, says string
		limit             int64
	}{
		{"enough", "in.txt.gz", "", 1000},
		{"a bomb", "in.txt.gz", "in.txt.gz has more than 999 bytes uncompressed", 999},
		{"enough of stdin", "-", "", 1000},
		{"endless", "-", "the standard input has more than 999 bytes", 999},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := setupLines(t, "in.txt.gz", gzipped(t, content))
			f.serve(&callstest.Handler{As: calls.Traits{Form: calls.Lines}}, Options{Stdin: strings.NewReader(content)})
			f.spec.Files.MaxInput = c.limit
			if c.input == "-" {
				f.spec.Files.Input = []string{"-"}
			}
			f.newRun("run-1")
			_, err := f.acts.Plan(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 1000})
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			jobtest.RequireType(t, err, job.ErrorInput)
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, f.spec.Store, "the disk that it fills")
			require.ErrorContains(t, err, "max-input")
			for _, key := range f.keys("run-1/") {
				require.NotRegexp(t, `/0000000\d$`, key)
			}
		})
	}
}
