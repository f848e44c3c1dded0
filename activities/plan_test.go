package activities

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stint-run/stint/internal/calls"
	"github.com/stint-run/stint/internal/calls/callstest"
	"github.com/stint-run/stint/internal/inputs"
	"github.com/stint-run/stint/internal/jobtest"
	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/store"
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

func TestPlan_Compressed(t *testing.T) {
	t.Parallel()
	text := jobtest.Lines(2000)
	var gz bytes.Buffer
	w := gzip.NewWriter(&gz)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	zst, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = zst.Close() })

	for name, content := range map[string]string{"in.jsonl.gz": gz.String(), "in.jsonl.zst": string(zst.EncodeAll([]byte(text), nil))} {
		f := setup(t, name, content)
		f.spec.BatchItems = 77
		var batches []wire.Batch
		for {
			f.serve(&callstest.Handler{}, Options{}) // the copy made so far serves every worker
			page, result := f.page(5)
			batches = append(batches, page...)
			if result.Done {
				break
			}
		}
		requireTiles(t, batches, 2000)
		require.Equal(t, strings.Split(strings.TrimSpace(text), "\n"), f.itemsIn(batches))
		require.Equal(t, text, f.processedText(batches))
	}
}

// processedText runs the batches and returns all that comes out, in order.
func (f *fixture) processedText(batches []wire.Batch) string {
	f.t.Helper()
	var out strings.Builder
	for _, e := range f.processAll(batches) {
		out.WriteString(f.output(e))
	}
	return out.String()
}

func TestPlan_CompressedBroken(t *testing.T) {
	t.Parallel()
	var gz bytes.Buffer
	w := gzip.NewWriter(&gz)
	random := rand.New(rand.NewPCG(1, 1))
	for range 100_000 {
		fmt.Fprintln(w, random.Uint64())
	}
	require.NoError(t, w.Close())
	for name, content := range map[string]string{"empty": "", "no gzip": "plain text\n", "cut short": gz.String()[:gz.Len()/2]} {
		f := setup(t, "in.txt.gz", content)
		_, err := f.acts.Plan(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 1000})
		require.Error(t, err, name)
		jobtest.RequireType(t, err, job.ErrorInput)
	}
}

func TestPlan_Stdin(t *testing.T) {
	t.Parallel()
	text := corpus(jobtest.Seeded(t, 3), records.Text, 500)
	f := setup(t, "in.txt", "a file\n")
	f.spec.Files.Input = append(f.spec.Files.Input, "-")
	f.spec.BatchItems = 9
	f.serve(&callstest.Handler{As: calls.Traits{Form: calls.Lines}}, Options{Stdin: strings.NewReader(text)})
	batches, result := f.page(10)
	require.Zero(t, result.Total, "the size of the standard input is not known beforehand")
	batches = append(batches, f.plan()...)
	head, err := records.Look(strings.NewReader(text), wire.Shape{Format: records.Text})
	require.NoError(t, err)
	want := append([]string{"a file"}, itemsOf(t, strings.NewReader(text[head.Start:]), head.Shape)...)
	requireTiles(t, batches, int64(len(want)))
	require.Equal(t, want, f.itemsIn(batches))

	complete, err := inputs.StdinComplete(t.Context(), &store.Access{}, job.Report{Store: f.spec.Store, Run: f.ref.Run, Planned: f.next.Item, PlanDone: true})
	require.NoError(t, err)
	require.True(t, complete)
}

func TestPlan_StdinOfNobody(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.spec.Files.Input = []string{"-"}
	_, err := f.acts.Plan(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 16})
	jobtest.RequireType(t, err, job.ErrorInput)
	require.ErrorContains(t, err, "stint run")
}

func TestPlan_StdinOnlyOnce(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.spec.Files.Input = []string{"-"}
	f.serve(&callstest.Handler{}, Options{Stdin: strings.NewReader("1\n")})
	f.plan()
	f.newRun("run-2")
	_, err := f.acts.Plan(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 16})
	jobtest.RequireType(t, err, job.ErrorInput)
	require.ErrorContains(t, err, "--fresh")
}

// A standard input that was not read to its end cannot be gone on with.
func TestStdinComplete_NotYet(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.spec.Files.Input = []string{"-"}
	r, w := io.Pipe()
	f.serve(&callstest.Handler{}, Options{Stdin: r})
	ctx, cancel := context.WithCancel(t.Context())
	planned := make(chan error, 1)
	go func() {
		_, err := f.acts.Plan(ctx, wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 16})
		planned <- err
	}()
	_, err := io.WriteString(w, "1\n2\n")
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, <-planned, context.Canceled, "whoever waits for the standard input can be cancelled")
	require.NoError(t, w.CloseWithError(errors.New("broken pipe")))

	access := &store.Access{}
	complete, err := inputs.StdinComplete(t.Context(), access, job.Report{Store: f.spec.Store, Run: f.ref.Run, Planned: f.next.Item, PlanDone: true})
	require.NoError(t, err)
	require.False(t, complete)
	complete, err = inputs.StdinComplete(t.Context(), access, job.Report{Store: f.spec.Store, Run: "another", Planned: 1})
	require.NoError(t, err)
	require.False(t, complete)
}

// The first page needs less than a chunk of the standard input: it must not wait for its end.
func TestPlan_StdinChunks(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("x", 1<<16-1) + "\n"
	r, w := io.Pipe()
	f := setup(t)
	f.spec.Files.Input, f.spec.BatchItems = []string{"-"}, 10
	f.spec.Files.Flush = time.Hour // a page that is not full waits for more
	f.serve(&callstest.Handler{}, Options{Stdin: r})
	written, planned := make(chan error, 1), make(chan struct{})
	go func() {
		for range int(inputs.SpoolChunk)/len(line) + 8 {
			if _, err := io.WriteString(w, line); err != nil {
				written <- err
				return
			}
		}
		<-planned
		written <- w.Close()
	}()
	batches, result := f.page(16)
	require.Len(t, batches, 16)
	require.False(t, result.Done)
	close(planned)
	batches = append(batches, f.plan()...)
	require.NoError(t, <-written)
	requireTiles(t, batches, int64(int(inputs.SpoolChunk)/len(line)+8))
	require.Len(t, f.keys("run-1/stdin-"), 3, "two chunks and the end")
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

func TestPlan_OutputMustBePossible(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		change  func(f *fixture)
		problem string
	}{
		{"output is a directory", func(f *fixture) {
			require.NoError(f.t, os.Mkdir(f.path("out.jsonl"), 0o777))
		}, "is a directory: write"},
		{"no directory for the output", func(f *fixture) { f.spec.Output = f.path("none/out.jsonl") }, "make it first"},
		{"no directory for the prefix", func(f *fixture) { f.spec.Output = f.path("none/out") + "/" }, "make it first"},
		{"file in the place of the prefix", func(f *fixture) { f.write("out", ""); f.spec.Output = f.path("out") + "/" }, "not a directory"},
		{"file in the place of the directory", func(f *fixture) { f.write("sub", ""); f.spec.Output = f.path("sub/out.jsonl") }, "directory"},
		{"no directory for the errors", func(f *fixture) { f.spec.Errors = f.path("none/errors.jsonl") }, "make it first"},
		{"no directory for the report", func(f *fixture) { f.spec.Report = f.path("none/report.json") }, "make it first"},
		{"report is a directory", func(f *fixture) {
			require.NoError(f.t, os.Mkdir(f.path("report"), 0o777))
			f.spec.Report = f.path("report")
		}, "is a directory"},
		{"unknown scheme", func(f *fixture) { f.spec.Output = "ftp://host/x" }, "unknown"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, "in.jsonl", jobtest.Lines(1))
			test.change(f)
			_, err := f.acts.Plan(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 16})
			jobtest.RequireType(t, err, job.ErrorOutput)
			require.ErrorContains(t, err, test.problem)
		})
	}
}

// Looking whether outputs can be written leaves nothing behind and touches nothing.
func TestPlan_OutputCheckLeavesNoTrace(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(1))
	f.spec.Errors, f.spec.Report = f.path("errors.jsonl"), f.path("report.json")
	f.write("out.jsonl", "of an earlier job")
	f.plan()
	require.Equal(t, "of an earlier job", f.read("out.jsonl"))
	found, err := filepath.Glob(f.path("*"))
	require.NoError(t, err)
	require.ElementsMatch(t, []string{f.path("in.jsonl"), f.path("out.jsonl"), f.path("out.jsonl.stint")}, found)
}

// G2, S11, S12: whatever the earlier runs have had accepted, the plan is exactly the complement.
func TestPlan_ResumeSkipsExactlyWhatIsAccepted(t *testing.T) {
	t.Parallel()
	const seed = 1000
	exts := []string{"jsonl", "csv", "txt", "txt.gz"}
	for round := range jobtest.Rounds(40) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			random := jobtest.Seeded(t, seed+round)
			ext := exts[round%uint64(len(exts))]
			var files []string
			for i := range 1 + random.IntN(3) {
				format := map[string]wire.Format{"jsonl": records.JSONL, "csv": records.CSV}[ext]
				text := corpus(random, format, 5+random.IntN(80))
				if strings.HasSuffix(ext, ".gz") {
					var gz bytes.Buffer
					w := gzip.NewWriter(&gz)
					_, _ = io.WriteString(w, text)
					require.NoError(t, w.Close())
					text = gz.String()
				}
				files = append(files, fmt.Sprintf("in-%d.%s", i, ext), text)
			}
			f := setup(t, files...)
			stopAfter := 0 // items of a batch; 0: all
			h := &callstest.Handler{As: calls.Traits{Form: calls.Lines}, Size: calls.CallSize{Items: 1}}
			f.serve(h, Options{})
			var accepted []wire.Entry
			var heads []string
			for run := 1; ; run++ {
				f.newRun(fmt.Sprintf("run-%d", run))
				f.spec.BatchItems = 1 + random.Int64N(9)
				batches, first := f.page(1+random.IntN(20), heads...)
				require.EqualValues(t, count(accepted), first.Resumed.Done())
				for !first.Done && random.IntN(5) > 0 || run == 6 && !first.Done {
					if random.IntN(3) == 0 {
						f.serve(h, Options{})
					}
					var page []wire.Batch
					page, first = f.page(1+random.IntN(20), heads...)
					batches = append(batches, page...)
				}
				if run == 6 { // the last run does what is left
					all := accepted
					for _, b := range batches {
						all = append(all, wire.Entry{Batch: b})
					}
					requireTiles(t, batchesOf(all), f.next.Item)
					heads = append(heads, f.commit(nil, f.processAll(batches)...))
					result := f.finish(heads...)
					require.EqualValues(t, f.next.Item, result.Books.OK)
					return
				}
				// Some of what was planned is accepted: whole batches, and beginnings of batches.
				var now []wire.Entry
				for _, b := range batches {
					if random.IntN(2) == 0 {
						continue
					}
					stopAfter = random.IntN(int(b.Count)) // 0: all
					entry := f.processSome(b, stopAfter)
					now = append(now, entry)
				}
				accepted = append(accepted, now...)
				for _, group := range jobtest.Groups(random, jobtest.Shuffled(random, now)) {
					// Manifests name earlier ones, or do not, as legs come to overlap.
					var previous []string
					if random.IntN(2) == 0 {
						previous, heads = heads, nil
					}
					heads = append(heads, f.commit(previous, group...))
				}
			}
		})
	}
}

func count(entries []wire.Entry) int64 {
	var n int64
	for _, e := range entries {
		n += e.Count
	}
	return n
}

// batchesOf returns the ranges of entries in order.
func batchesOf(entries []wire.Entry) []wire.Batch {
	batches := make([]wire.Batch, len(entries))
	for i, e := range entries {
		batches[i] = e.Batch
	}
	sortBatches(batches)
	return batches
}

// processSome runs a batch that ends early, after n of its items; 0: at its end.
func (f *fixture) processSome(b wire.Batch, n int) wire.Entry {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := 0
	h := f.acts.opts.Handler.(*callstest.Handler)
	h.Do = func(c *calls.Call) error {
		if n > 0 && done == n {
			cancel()
			for !c.Ending() {
				c.Wait(20) // ends with the batch
			}
			return nil
		}
		done++
		return callstest.Echo(c)
	}
	defer func() { h.Do = nil }()
	result, err := f.acts.Process(ctx, f.input(b))
	require.NoError(f.t, err)
	want := b.Count
	if n > 0 {
		want = int64(n)
	}
	require.Equal(f.t, want, result.Entry.Count)
	return result.Entry
}

func TestPlan_ResumeOfMissingManifest(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(1))
	_, err := f.acts.Plan(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, Resume: []string{"run-0/manifests/gone.jsonl"}, Batches: 16})
	require.Error(t, err)
	jobtest.RequireType(t, err, job.ErrorBooks)
}

// Files that a job writes itself are not among its inputs, wherever they are.
func TestPlan_LeavesItsOwnFilesOut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		output, input string
		want, leftOut int
	}{
		{"in/out.jsonl", "in", 2, 7}, // output, errors, report and four files of the store
		{"in/out.jsonl", "in/*.jsonl", 2, 2},
		{"in/out/", "in", 2, 6},
		{"out.jsonl", "in", 2, 1},
	} {
		t.Run(c.output+" of "+c.input, func(t *testing.T) {
			t.Parallel()
			f := setup(t, "in/a.jsonl", "1\n", "in/b.jsonl", "2\n")
			f.spec.Files.Input, f.spec.Output, f.spec.Report = []string{f.path(c.input)}, f.path(c.output), f.path("in/report.json")
			f.spec.Store, f.spec.Errors = "", ""
			if c.output[len(c.output)-1] == '/' {
				f.spec.Output += "/"
			}
			f.newRun("run-1")
			f.write("in/report.json", "{}\n")
			if f.spec.Errors != "" {
				require.NoError(t, os.MkdirAll(filepath.Dir(f.spec.Errors), 0o777))
				require.NoError(t, os.WriteFile(f.spec.Errors, []byte("{}\n"), 0o666))
			}
			for _, name := range []string{"earlier/manifests/x.jsonl", "earlier/errors/y.jsonl"} {
				_ = f.store().Put(t.Context(), name, []byte("3\n"))
			}
			if !store.IsPrefix(f.spec.Output) {
				require.NoError(t, os.WriteFile(f.spec.Output, []byte("4\n"), 0o666))
			}
			_, result := f.page(10)
			require.Equal(t, c.leftOut, result.LeftOut)
			table, err := f.acts.inputs.Table(t.Context(), f.store(), result.Sources)
			require.NoError(t, err)
			files := 0
			for _, s := range table.Sources {
				files++
				if s.Bundle != nil {
					files += s.Bundle.Inputs - 1
				}
			}
			require.Equal(t, c.want, files)
		})
	}
}

// X1: an input that is named is not left out, and must not be replaced: the job fails before it has done anything.
func TestPlan_NamedOwnFile(t *testing.T) {
	t.Parallel()
	f := setup(t, "real/in.jsonl", "1\n")
	require.NoError(t, os.Symlink("real", f.path("link")))
	for _, c := range []struct{ input, output string }{{"link/in.jsonl", "real/in.jsonl"}, {"real/in.jsonl", "link/in.jsonl"}} {
		f.spec.Files.Input, f.spec.Output, f.spec.Store, f.spec.Errors = []string{f.path(c.input)}, f.path(c.output), "", ""
		f.newRun("run-1")
		_, err := f.acts.Plan(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 1})
		jobtest.RequireType(t, err, job.ErrorInput)
		require.ErrorContains(t, err, "name another input, or another place")
		require.Equal(t, []string{ledger.CurrentKey}, f.keys(""), "no table is left")
	}

	// Neither does a resumed job whose output has moved there.
	f.spec.Output, f.spec.Store, f.spec.Errors = f.path("out.jsonl"), f.path("store"), ""
	f.newRun("run-2")
	head := f.commit(nil, f.processAll(f.plan())...)
	f.spec.Output, f.spec.Errors = f.path("link/in.jsonl"), ""
	f.newRun("run-3")
	_, err := f.acts.Plan(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, Resume: []string{head}, Batches: 1})
	jobtest.RequireType(t, err, job.ErrorInput)
}

// Two outputs that are one file are refused.
func TestPlan_OutputsThatAreOneFile(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", "1\n", "real/x", "")
	require.NoError(t, os.Symlink("real", f.path("link")))
	f.spec.Files.Input, f.spec.Output, f.spec.Errors = f.spec.Files.Input[:1], f.path("real/out.jsonl"), f.path("link/out.jsonl")
	f.newRun("run-1")
	_, err := f.acts.Plan(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 1})
	jobtest.RequireType(t, err, job.ErrorOutput)
	require.ErrorContains(t, err, "link/out.jsonl is the same file as")
}

// An input of which nothing is left is as good as missing.
func TestPlan_OnlyOwnFiles(t *testing.T) {
	t.Parallel()
	f := setup(t, "in/out.jsonl", "1\n")
	f.spec.Files.Input, f.spec.Output, f.spec.Store = []string{f.path("in")}, f.path("in/out.jsonl"), ""
	f.newRun("run-1")
	_, err := f.acts.Plan(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 1})
	jobtest.RequireType(t, err, job.ErrorInput)
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

// D1: what a manifest says of a damaged batch is lost when the job is resumed: its items, and no others, are planned and run again, and the
// job completes.
func TestD1_ResumeRunsWhatADamagedEntryNames(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.txt", strings.Repeat("line\n", 30))
	f.spec.BatchItems = 10
	f.serve(&callstest.Handler{As: calls.Traits{Form: calls.Lines}}, Options{})
	batches := f.plan()
	require.Len(t, batches, 3)
	head := f.commit(nil, f.processAll(batches)...)
	f.rewrite(head, func(text string) string {
		damaged := strings.Replace(text, `"o":50,`, "", 1)
		require.NotEqual(t, text, damaged)
		return damaged
	})
	_, err := f.finishOnce(t.Context(), f.finishInput(head))
	jobtest.RequireType(t, err, job.ErrorBooks)

	f.newRun("run-2")
	again := f.plan(head)
	require.Equal(t, batches[1:2], again)
	result := f.finish(head, f.commit(nil, f.processAll(again)...))
	require.EqualValues(t, 30, result.Books.OK)

	_, err = f.acts.Process(t.Context(), f.input(batches[1].Upto(5, 25)))
	require.NoError(t, err)
	moved := batches[1]
	moved.Offset = 0
	_, err = f.acts.Process(t.Context(), f.input(moved))
	jobtest.RequireType(t, err, job.ErrorDamaged)
}
