package inputs

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strings"
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

// tree writes files, and returns the function that names them.
func tree(t *testing.T, files map[string]string) (at func(string) string) {
	t.Helper()
	root := t.TempDir()
	at = func(name string) string { return root + "/" + name }
	for name, content := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(at(name)), 0o777))
		require.NoError(t, os.WriteFile(at(name), []byte(content), 0o666))
	}
	return at
}

// planned is what the first page of a job shows, and all items that it has, in lines.
func planned(t *testing.T, access ledger.Access, spec job.Spec) (items []string, result wire.PlanResult, err error) {
	t.Helper()
	dir, err := (&store.Access{}).Open(t.Context(), t.TempDir())
	require.NoError(t, err)
	n := New(access, nil)
	t.Cleanup(n.Close)
	in := wire.PlanInput{Ref: wire.Ref{Job: "job", Run: "run"}, Spec: spec.WithDefaults(), Batches: 600}
	if result, err = n.Plan(t.Context(), dir, in, n); err != nil {
		return nil, result, err
	}
	require.True(t, result.Done)
	batches, err := wire.DecodePage(result.Page)
	require.NoError(t, err)
	table, err := n.Table(t.Context(), dir, result.Sources)
	require.NoError(t, err)
	for _, b := range batches {
		r, err := n.OpenRange(t.Context(), dir, table, b)
		require.NoError(t, err)
		var chunk records.Chunk
		for {
			if err := r.Next(&chunk, 100, 1<<20); err == io.EOF {
				break
			} else {
				require.NoError(t, err)
			}
			for i := range chunk.Items {
				line, err := records.AppendLine(r.Shape(), nil, &chunk.Items[i])
				require.NoError(t, err)
				items = append(items, string(line))
			}
			r.Done(chunk.Items)
		}
		r.Close()
	}
	return items, result, nil
}

func TestD21_BlankLinesAreCounted(t *testing.T) {
	t.Parallel()
	at := tree(t, map[string]string{"a.jsonl": "1\n\n\n2\n", "b.csv": "n\n\n1\n \n", "c.txt": "one\n\ntwo"})
	items, result, err := planned(t, &store.Access{}, job.Spec{Files: &job.Files{Input: []string{at("")}}})
	require.NoError(t, err)
	require.Equal(t, []string{"1", "2", `{"n":"1"}`, "one", "", "two"}, items)
	require.EqualValues(t, 4, result.Noticed.Blank)
}

func TestD29_TSVHasNoQuotes(t *testing.T) {
	t.Parallel()
	at := tree(t, map[string]string{"a.tsv": "a\tb\n1\t\"x\n2\ty\n3\tz\"\n4\tw\n"})
	for quote, want := range map[string]int{"": 4, "none": 4, `"`: 2} {
		items, _, err := planned(t, &store.Access{}, job.Spec{Files: &job.Files{Input: []string{at("a.tsv")}, Quote: quote}})
		require.NoError(t, err)
		require.Len(t, items, want)
	}
	items, _, err := planned(t, &store.Access{}, job.Spec{Files: &job.Files{Input: []string{at("a.tsv")}, Delimiter: "\t"}, Format: "csv"})
	require.NoError(t, err)
	require.Len(t, items, 2, "it is CSV by choice")
	_, _, err = planned(t, &store.Access{}, job.Spec{Files: &job.Files{Input: []string{at("a.tsv")}, Quote: `"`}, Format: "text"})
	require.ErrorContains(t, err, `quote "\"": no input is csv`)
}

func TestD22_CarriageReturnsAreNoted(t *testing.T) {
	t.Parallel()
	at := tree(t, map[string]string{"a.txt": "1\r2\r", "b.txt": "3\n"})
	_, result, err := planned(t, &store.Access{}, job.Spec{Files: &job.Files{Input: []string{at("")}}})
	require.NoError(t, err)
	require.Len(t, result.Noticed.Notes, 1)
	require.Contains(t, result.Noticed.Notes[0], "input "+at("a.txt")+" has carriage returns and no line feed")
}

// sizeless is an access to files of which the system gives the size as 0, and which cannot be read from the middle.
type sizeless struct{ store.Access }

func (a *sizeless) StatInput(ctx context.Context, url string) (store.Info, error) {
	info, err := a.Access.StatInput(ctx, url)
	info.Size, info.ModTime = 0, time.Now() // another one at each look
	return info, err
}

func (a *sizeless) Expand(ctx context.Context, args []string) iter.Seq2[store.Input, error] {
	return func(yield func(store.Input, error) bool) {
		for input, err := range a.Access.Expand(ctx, args) {
			input.Size, input.ModTime = 0, time.Now()
			if !yield(input, err) {
				return
			}
		}
	}
}

func TestD43_FilesWhoseSizeIsGivenAsZero(t *testing.T) {
	t.Parallel()
	at := tree(t, map[string]string{"a.txt": "1\n2\n", "b.txt": "3\n", "empty.txt": ""})
	for _, input := range []string{"", "a.txt"} {
		items, _, err := planned(t, &sizeless{}, job.Spec{Files: &job.Files{Input: []string{at(input)}}})
		require.NoError(t, err)
		require.Equal(t, []string{"1", "2", "3"}[:len(items)], items)
		require.GreaterOrEqual(t, len(items), 2)
	}
}

const errorRecord = `{"item":0,"source":"/in.jsonl","offset":0,"input":1,"kind":"error","error":{"type":"T","message":"m"},"attempts":1}` + "\n"

// outputInParts are the files of a job's output in parts, whose order is not that of their names. One part is not
// accepted.
func outputInParts(place string) map[string]string {
	run := place + "01a21844-c4ab-787e-a456-f77a5d0c121d/"
	files := map[string]string{
		place + "CURRENT": "01a21844-c4ab-787e-a456-f77a5d0c121d born 1795703489707", place + "CURRENT.lock": "", run + "DONE": "{}", place + "errors.jsonl": errorRecord,
		run + "parts/1-a.out": `{"a":3}` + "\n", run + "parts/2-b.out": `{"a":1}` + "\n" + `{"a":2}` + "\n", run + "parts/3-c.out": `{"a":9}` + "\n", run + "manifests/x.jsonl": "{}\n",
	}
	for _, part := range []string{"2-b", "1-a"} {
		files[place+"manifest.jsonl"] += fmt.Sprintf(`{"part":"%sparts/%s.out","first":0,"items":1}`+"\n", strings.TrimPrefix(run, place), part)
	}
	return files
}

// What jobs have written for themselves is never data: an output in parts is its parts, and error records are left out.
func TestD23_FilesOfOtherJobs(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"s/x.jsonl": "1\n", "s/x.jsonl.errors.jsonl": errorRecord, "s/my-errors.jsonl": `{"item":1}` + "\n",
		"all/a.jsonl": "0\n", "all/z.jsonl": "4\n", "half/CURRENT": "01a21844-c4ab-787e-a456-f77a5d0c121d", "half/x.jsonl": "1\n",
	}
	for _, place := range []string{"o/", "all/o/"} {
		for name, content := range outputInParts(place) {
			files[name] = content
		}
	}
	at := tree(t, files)
	for _, c := range []struct {
		input   string
		want    []string
		leftOut int
	}{
		{"s/*.jsonl", []string{`{"item":1}`, "1"}, 1},
		{"s", []string{`{"item":1}`, "1"}, 1},
		{"s/x.jsonl.errors.jsonl", []string{strings.TrimSpace(errorRecord)}, 0},
		{"o/", []string{`{"a":1}`, `{"a":2}`, `{"a":3}`}, 0},
		{"o", []string{`{"a":1}`, `{"a":2}`, `{"a":3}`}, 0},
		{"all", []string{"0", `{"a":1}`, `{"a":2}`, `{"a":3}`, "4"}, 0},
		{"o/*/parts/*.out", []string{`{"a":3}`, `{"a":1}`, `{"a":2}`}, 1},
	} {
		items, result, err := planned(t, &store.Access{}, job.Spec{Files: &job.Files{Input: []string{at(c.input)}}})
		require.NoError(t, err, c.input)
		require.Equal(t, c.want, items, c.input)
		require.Equal(t, c.leftOut, result.LeftOut, c.input)
	}
	for _, input := range []string{"o/*.jsonl", "half/"} {
		_, _, err := planned(t, &store.Access{}, job.Spec{Files: &job.Files{Input: []string{at(input)}}})
		jobtest.RequireType(t, err, job.ErrorInput)
		require.ErrorContains(t, err, "was written by stint for itself")
	}
}

// D23: in a bucket, too, whatever lies below the prefix that is the input.
func TestD23_FilesOfOtherJobsInABucket(t *testing.T) {
	t.Parallel()
	const bucket = "mem://d23-bucket/"
	access := &store.Access{}
	dir, err := access.Open(t.Context(), bucket)
	require.NoError(t, err)
	files := map[string]string{
		"all/a.jsonl": "0\n", "all/z.jsonl": "4\n", "all/half/CURRENT": "01a21844-c4ab-787e-a456-f77a5d0c121d born 1",
		"all/half/01a21844-c4ab-787e-a456-f77a5d0c121d/parts/1.out": "5\n", "all/x.errors.jsonl": errorRecord,
		// A prefix may be named as a run is, and hold a store.
		"all/11111111-1111-1111-1111-111111111111/half/CURRENT":                                          "01a21844-c4ab-787e-a456-f77a5d0c121d born 1",
		"all/11111111-1111-1111-1111-111111111111/half/01a21844-c4ab-787e-a456-f77a5d0c121d/parts/1.out": "6\n",
	}
	for name, content := range outputInParts("all/o/") {
		if !strings.HasSuffix(name, ".lock") {
			files[name] = content
		}
	}
	for name, content := range files {
		require.NoError(t, dir.Put(t.Context(), name, []byte(content)))
	}
	for _, c := range []struct {
		input   string
		want    []string
		leftOut int
	}{
		{"all/", []string{"0", `{"a":1}`, `{"a":2}`, `{"a":3}`, "4"}, 5},
		{"all/o/", []string{`{"a":1}`, `{"a":2}`, `{"a":3}`}, 0},
		{"all/o/*/parts/*.out", []string{`{"a":3}`, `{"a":1}`, `{"a":2}`}, 1},
	} {
		items, result, err := planned(t, access, job.Spec{Files: &job.Files{Input: []string{bucket + c.input}}})
		require.NoError(t, err, c.input)
		require.Equal(t, c.want, items, c.input)
		require.Equal(t, c.leftOut, result.LeftOut, c.input)
	}
}

// packed is a text as gzip stores it: of texts of one length, of one length.
func packed(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.NoCompression)
	require.NoError(t, err)
	_, err = io.WriteString(z, text)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}

// An input that was replaced by another of the same size and time is not gone on with; one that is only another file
// with the same content is.
func TestD49_ReplacedInput(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the change of a file is not known here")
	}
	content := strings.Repeat("0123456\n", 1<<18) // 2 MiB: too large for a bundle
	for name, files := range map[string]map[string]string{
		"one": {"a.txt": "old\n"}, "several": {"a.txt": "old\n", "b.txt": "other\n"}, "large": {"a.txt": content}, "compressed": {"a.txt.gz": ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := tree(t, files)
			dir, err := (&store.Access{}).Open(t.Context(), t.TempDir())
			require.NoError(t, err)
			n := New(&store.Access{}, nil)
			t.Cleanup(n.Close)
			file := at("a.txt")
			if name == "compressed" {
				file = at("a.txt.gz")
				require.NoError(t, os.WriteFile(file, packed(t, "old\n"), 0o666))
			}
			table, err := n.List(t.Context(), dir, wire.PlanInput{Spec: job.Spec{Files: &job.Files{Input: []string{at("")}}}.WithDefaults()})
			require.NoError(t, err)
			replace := func(content []byte) {
				info, err := os.Stat(file)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(file+".new", content, 0o666))
				require.NoError(t, os.Chtimes(file+".new", info.ModTime(), info.ModTime()))
				require.NoError(t, os.Rename(file+".new", file))
			}
			same, err := os.ReadFile(file)
			require.NoError(t, err)
			replace(same)
			require.NoError(t, n.allUnchanged(t.Context(), table), "a copy")
			require.NoError(t, os.Chmod(file, 0o600))
			require.NoError(t, n.allUnchanged(t.Context(), table), "other rights")
			other := []byte(strings.Replace(string(same), "old", "new", 1))
			switch name {
			case "large":
				copy(other[len(other)-100:], "x")
			case "compressed":
				other = packed(t, "new\n")
			}
			require.Len(t, other, len(same))
			replace(other)
			err = n.allUnchanged(t.Context(), table)
			jobtest.RequireType(t, err, job.ErrorChanged)
			require.ErrorContains(t, err, "replaced by another file of the same size and time")
		})
	}
}

// Of inputs that have no digest the change decides, if the machine is the same.
func TestD49_ManyInputs(t *testing.T) {
	t.Parallel()
	input := store.Input{URL: "/a", Info: store.Info{Size: 1, Inode: 7, Changed: time.Unix(1, 2), ModTime: time.Unix(3, 4)}}
	n := New(&store.Access{}, nil)
	t.Cleanup(n.Close)
	for name, on := range map[string]string{"here": machine, "elsewhere": machine + "-2"} {
		table := Table{SourceTable: wire.SourceTable{Machine: on}}
		table.bundle([]store.Input{input, input}, wire.Shape{Format: records.Text})
		members, err := table.members(&table.Sources[0])
		require.NoError(t, err)
		now := input.Info
		require.NoError(t, n.alike(t.Context(), members[1].Input, now), name)
		now.Inode++
		require.Equal(t, name == "here", n.alike(t.Context(), members[1].Input, now) != nil, name)
	}
}

// Inputs of any name are read.
func TestD33_NamesOfInputs(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("names are texts there")
	}
	names := []string{"caf\xe9.txt", "new\nline.txt", `back\slash.txt`, "yarn.lock", "a b?.txt"}
	for _, name := range names {
		at := tree(t, map[string]string{"d/" + name: "x\n"})
		where, err := store.Absolute(at("d/"+name), "/")
		require.NoError(t, err)
		for _, input := range []string{where, at("d"), at("d/*")} {
			items, _, err := planned(t, &store.Access{}, job.Spec{Files: &job.Files{Input: []string{input}}, Format: "text"})
			require.NoError(t, err, "%q", input)
			require.Equal(t, []string{"x"}, items)
		}
	}
}

// A file of an unknown format that a directory has is named, with what to do.
func TestR11_UnknownFormatInADirectory(t *testing.T) {
	t.Parallel()
	at := tree(t, map[string]string{"d/a.jsonl": "1\n", "d/README.md": "read me\n"})
	_, _, err := planned(t, &store.Access{}, job.Spec{Files: &job.Files{Input: []string{at("d")}}})
	jobtest.RequireType(t, err, job.ErrorInvalid)
	require.ErrorContains(t, err, "README.md")
	require.ErrorContains(t, err, "name the files that are meant by a pattern, such as '"+at("d")+"/*.jsonl'")
}

// An input that is named as if it were compressed, and is not, is said to be that, also if its name shows no format.
func TestInputs_PlainTextNamedGz(t *testing.T) {
	t.Parallel()
	at := tree(t, map[string]string{"a.gz": "plain\n", "b.zst": "plain\n", "c.txt.gz": "plain\n"})
	for _, name := range []string{"a.gz", "b.zst", "c.txt.gz"} {
		_, _, err := planned(t, &store.Access{}, job.Spec{Files: &job.Files{Input: []string{at(name)}}})
		jobtest.RequireType(t, err, job.ErrorInput)
		require.ErrorContains(t, err, at(name)+": it is not ")
		require.ErrorContains(t, err, "off its name")
	}
	require.NoError(t, os.WriteFile(at("d.gz"), packed(t, "plain\n"), 0o666))
	_, _, err := planned(t, &store.Access{}, job.Spec{Files: &job.Files{Input: []string{at("d.gz")}}})
	jobtest.RequireType(t, err, job.ErrorInvalid)
	require.ErrorContains(t, err, "it has no extension before .gz; choose the format with --format")
	items, _, err := planned(t, &store.Access{}, job.Spec{Files: &job.Files{Input: []string{at("d.gz")}}, Format: "text"})
	require.NoError(t, err)
	require.Equal(t, []string{"plain"}, items)
}
