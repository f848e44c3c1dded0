package main

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// item is one item. Its kind lies in it, so that the handlers know what to do.
type item struct {
	n      int
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
		all[n] = item{n: n, kind: "ok", value: value.String(), source: n * max(1, j.files) / j.items}
		for _, k := range []struct {
			kind string
			in   int
		}{{"fail", j.fails}, {"flaky", j.flaky}, {"drop", j.drops}, {"broken", j.broken}} {
			if k.in > 0 && r.IntN(k.in) == 0 {
				all[n].kind = k.kind
			}
		}
	}
	return all
}

// group is the value by which results are split.
func (i item) group() string { return "g" + strconv.Itoa(i.n%3) }

// text is the item as a line of text.
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
			if i.n%17 == 0 {
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
