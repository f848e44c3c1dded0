package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/stint-run/stint/internal/base/text"
)

// item is one item. Its kind lies in it, so that the handlers know what to do.
type item struct {
	at     int    // among all
	n      int    // its number: an item that equals one before it has the same
	kind   string // ok, fail, flaky, drop; broken: it is none
	value  string
	source int // index of the file that it lies in
}

// alphabets are what values are made of.
var alphabets = [][]string{
	{"a", "b", "z", "0", "9", "-"},
	{"<", ">", "&", "\\", "'", "/", "\""},
	{"é", "漢", "🦊", "\u2028", "ß", " "},
	{"a", " ", ",", ";", ":", "{", "}"},
}

// makeItems makes the job's items, some of them blank.
func (j job) makeItems() []item {
	r := rand.New(rand.NewPCG(j.seed, 2))
	alphabet := alphabets[r.IntN(len(alphabets))]
	longest := 1 << r.IntN(9)
	all := make([]item, j.items)
	for n := range all {
		var value strings.Builder
		for range r.IntN(longest) {
			value.WriteString(alphabet[r.IntN(len(alphabet))])
		}
		if j.even {
			value.Reset()
			fmt.Fprintf(&value, "%06d", n)
		}
		all[n] = item{at: n, n: n, kind: "ok", value: value.String(), source: n * max(1, j.files) / j.items}
		for _, k := range []struct {
			kind string
			in   int
		}{{"fail", j.fails}, {"flaky", j.flaky}, {"drop", j.drops}, {"broken", j.broken}} {
			if k.in > 0 && r.IntN(k.in) == 0 {
				all[n].kind = k.kind
			}
		}
	}
	if j.unique {
		for n := 1; n < len(all); n++ {
			if r.IntN(3) == 0 {
				source := all[n].source
				all[n] = all[r.IntN(n)]
				all[n].at, all[n].source = n, source
			}
		}
	}
	return all
}

// change returns items of which some have another value, and some more.
func (j job) change(items []item) []item {
	r := rand.New(rand.NewPCG(j.seed, 4))
	items = slices.Clone(items)
	often := 1 + r.IntN(30)
	for n := range items {
		if r.IntN(often) == 0 {
			items[n].value += "x"
		}
	}
	for range r.IntN(20) {
		items = append(items, item{at: len(items), n: len(items), kind: "ok", value: "new", source: max(0, j.files-1)})
	}
	return items
}

// group returns the value by which results are split.
func (i item) group() string { return "g" + strconv.Itoa(i.n%3) }

// text returns the item as a line of text.
func (i item) text() string { return fmt.Sprintf("%06d %s %s", i.n, i.kind, i.value) }

// encode writes items in the job's format.
func (j job) encode(items []item) []byte {
	var out bytes.Buffer
	table := csv.NewWriter(&out)
	switch j.format {
	case "csv":
		_ = table.Write([]string{"n", "kind", "value"}) // a buffer takes everything
	case "tsv":
		out.WriteString("n\tkind\tvalue\n")
	}
	for _, i := range items {
		switch {
		case i.kind == "broken":
			out.WriteString(`{"n":` + strconv.Itoa(i.n) + "\n")
		case j.format == "csv":
			_ = table.Write([]string{strconv.Itoa(i.n), i.kind, i.value})
			table.Flush()
		case j.format == "tsv":
			out.WriteString(strconv.Itoa(i.n) + "\t" + i.kind + "\t" + i.value + "\n")
		case j.format == "jsonl":
			line, _ := json.Marshal(map[string]any{"n": i.n, "kind": i.kind, "value": i.value}) // of texts and numbers
			out.Write(append(line, '\n'))
			if i.n%17 == 0 && !j.feed {
				out.WriteString("\n") // is no item
			}
		default:
			out.WriteString(i.text() + "\n")
		}
	}
	table.Flush()
	return out.Bytes()
}

// pack compresses a file's content as its name says.
func pack(content []byte, packed string) ([]byte, error) {
	var out bytes.Buffer
	var w io.WriteCloser
	switch packed {
	case "":
		return content, nil
	case ".gz":
		w = gzip.NewWriter(&out)
	default:
		zw, err := zstd.NewWriter(&out)
		if err != nil {
			return nil, err
		}
		w = zw
	}
	_, err := w.Write(content)
	err = errors.Join(err, w.Close()) // before the bytes are taken
	return out.Bytes(), err
}

// handlerCommand is the argument with which this program is a filter, followed by the directory with its marks.
const handlerCommand = "filter"

// healed is the mark of a directory in which no item fails any more.
const healed = "healed"

var errFails = errors.New("an item fails")

// filter answers each line of in with a line.
func filter(marks string, in io.Reader, out io.Writer) error {
	_, err := os.Stat(filepath.Join(marks, healed))
	heals := err == nil
	w := bufio.NewWriter(out)
	lines := bufio.NewReaderSize(in, 1<<20)
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			return w.Flush()
		}
		if err != nil {
			return err
		}
		answer, fails := answerLine(strings.TrimSuffix(line, "\n"))
		if fails && !heals {
			return errFails
		}
		if _, err := w.WriteString(answer + "\n"); err != nil {
			return err
		}
	}
}

// answerLine returns the filter's answer to a line.
func answerLine(line string) (answer string, fails bool) {
	if !strings.HasPrefix(line, "{") {
		return line + "+", strings.Contains(line, " fail ")
	}
	var object map[string]any
	dec := json.NewDecoder(strings.NewReader(line))
	dec.UseNumber()
	if err := dec.Decode(&object); err != nil {
		return "not an object", false
	}
	n, _ := strconv.Atoi(fmt.Sprint(object["n"]))
	object["value"] = fmt.Sprint(object["value"]) + "+"
	object["group"] = item{n: n}.group()
	out, err := text.JSON(object)
	if err != nil {
		return "not an answer", false
	}
	return string(out), object["kind"] == "fail"
}

// program is the same as a serve program. It can also drop items, and have them fail once.
const program = `import os, sys
sys.path.insert(0, sys.argv[1])
import stint

marks = sys.argv[2]

def answer(item):
    text = isinstance(item, str)
    n, kind, value = item.split(" ", 2) if text else (str(item["n"]), item["kind"], item["value"])
    if kind == "fail" and not os.path.exists(os.path.join(marks, "healed")):
        raise ValueError("fails")
    if kind == "flaky":
        try:
            os.close(os.open(os.path.join(marks, "flaky-" + n), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            raise ValueError("fails once")
    if kind == "drop":
        return stint.DROP
    return item + "+" if text else {**item, "value": value + "+", "group": "g%d" % (int(n) % 3)}

def outcome(item):
    try:
        return answer(item)
    except ValueError as error:
        return error

stint.serve(lambda items: [outcome(item) for item in items])
`

// handler returns the flags that give a job's handler.
func (j job) handler(l *lab, b *bench) []string {
	if j.serve {
		return []string{"--serve", strings.Join([]string{l.python, b.program, b.helper, b.marks}, " ")}
	}
	filter := strings.Join([]string{l.self, handlerCommand, b.marks}, " ")
	if j.each {
		return []string{"--each", filter, "--stdin", "item"}
	}
	return []string{"--exec", filter}
}

// outcome is what a job leaves: results in their order, by file, and the ordinals of failed items.
type outcome struct {
	results map[string][]string
	failed  []int
}

// model returns what a job has to leave. healed: its failed items have been redriven.
func (j job) model(items []item, healed bool) outcome {
	want := outcome{results: map[string][]string{}}
	for _, i := range items {
		switch {
		case i.kind == "broken", i.kind == "fail" && !healed:
			want.failed = append(want.failed, i.at)
			continue
		case i.kind == "drop":
			continue
		}
		file := ""
		if j.output == "split" {
			file = i.group()
		}
		want.results[file] = append(want.results[file], j.result(i))
	}
	if j.onError == "drop" {
		want.failed = nil
	}
	return want
}

// result returns an item's result, in a form in which results are compared.
func (j job) result(i item) string {
	value := i.value + strings.Repeat("+", max(1, j.stages))
	if j.format == "text" {
		return i.text()[:len(i.text())-len(i.value)] + value
	}
	return fields(map[string]any{"n": i.n, "kind": i.kind, "value": value, "group": i.group()})
}

// fields writes an object's fields in one order, numbers as they are in tables.
func fields(object map[string]any) string {
	var all []string
	for _, key := range []string{"n", "kind", "group", "value"} {
		all = append(all, fmt.Sprint(object[key]))
	}
	return strings.Join(all, " ")
}

// comparable returns a line of results in the form of [job.result].
func (j job) comparable(line string) string {
	var value any
	dec := json.NewDecoder(strings.NewReader(line))
	dec.UseNumber()
	if err := dec.Decode(&value); err != nil || dec.More() {
		return line
	}
	switch value := value.(type) {
	case string:
		return value
	case map[string]any:
		return fields(value)
	}
	return line
}

// differs says where an outcome differs from the wanted one; empty: nowhere.
func (want outcome) differs(got outcome) string {
	files := slices.AppendSeq(slices.Collect(maps.Keys(want.results)), maps.Keys(got.results))
	slices.Sort(files)
	for _, file := range slices.Compact(files) {
		w, g := want.results[file], got.results[file]
		for n := range max(len(w), len(g)) {
			switch {
			case n >= len(w):
				return fmt.Sprintf("results %s: line %d is too many: %s", file, n+1, strconv.Quote(g[n]))
			case n >= len(g):
				return fmt.Sprintf("results %s: line %d is missing: %s", file, n+1, strconv.Quote(w[n]))
			case w[n] != g[n]:
				return fmt.Sprintf("results %s: line %d is %s, not %s", file, n+1, strconv.Quote(g[n]), strconv.Quote(w[n]))
			}
		}
	}
	if !slices.Equal(want.failed, got.failed) {
		return fmt.Sprintf("failed items are %v, not %v", got.failed, want.failed)
	}
	return ""
}
