package records

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/wire"
)

// benchmarkInput is some 64 MiB of items of about 100 bytes.
func benchmarkInput(format wire.Format, quoted bool) []byte {
	var out bytes.Buffer
	for i := 0; out.Len() < 64<<20; i++ {
		pad := strings.Repeat("x", 40+i*7919%41)
		switch {
		case format == JSON:
			fmt.Fprintf(&out, "  {\n    \"id\": %d,\n    \"name\": \"item %d\",\n    \"pad\": %q\n  },\n", i, i, pad)
		case format == JSONL:
			fmt.Fprintf(&out, "{\"id\":%d,\"name\":\"item %d\",\"pad\":%q}\n", i, i, pad)
		case quoted:
			fmt.Fprintf(&out, "%d,\"item, %d\",\"%s\",\"a \"\"b\"\"\"\r\n", i, i, pad)
		default:
			fmt.Fprintf(&out, "%d,item %d,%s,some more text\n", i, i, pad)
		}
	}
	return out.Bytes()
}

// overInputs runs f over each kind of input.
func overInputs(b *testing.B, f func(b *testing.B, s wire.Shape, input []byte)) {
	for _, c := range []struct {
		name   string
		format wire.Format
		quoted bool
	}{{"jsonl", JSONL, false}, {"json", JSON, false}, {"text", Text, false}, {"csv", CSV, false}, {"csv quoted", CSV, true}} {
		b.Run(c.name, func(b *testing.B) {
			input := benchmarkInput(c.format, c.quoted)
			b.SetBytes(int64(len(input)))
			b.ReportAllocs()
			b.ResetTimer()
			f(b, wire.Shape{Format: c.format, Array: true, Columns: []string{"id", "name", "pad", "more"}}, input)
		})
	}
}

func BenchmarkCutter(b *testing.B) {
	overInputs(b, func(b *testing.B, s wire.Shape, input []byte) {
		for b.Loop() {
			c := NewCutter(bytes.NewReader(input), s)
			for {
				if _, err := c.Next(10_000, math.MaxInt64); err == io.EOF {
					break
				}
			}
		}
	})
}

func BenchmarkReader(b *testing.B) {
	for _, items := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("%d items", items), func(b *testing.B) {
			overInputs(b, func(b *testing.B, s wire.Shape, input []byte) {
				var c Chunk
				for b.Loop() {
					r := NewReader(bytes.NewReader(input), s)
					for r.Read(&c, items, 1<<20) == nil {
					}
				}
			})
		})
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	overInputs(b, func(b *testing.B, s wire.Shape, input []byte) {
		var c Chunk
		var out []byte
		for b.Loop() {
			r := NewReader(bytes.NewReader(input), s)
			for r.Read(&c, 10_000, 1<<20) == nil {
				out = out[:0]
				for i := range c.Items {
					var err error
					if out, err = AppendJSON(&s, out, &c.Items[i]); err != nil {
						b.Fatal(err)
					}
				}
			}
		}
	})
}

func BenchmarkCheckLine(b *testing.B) {
	overInputs(b, func(b *testing.B, s wire.Shape, input []byte) {
		if s.Format != JSONL {
			b.Skip("only JSON lines are checked")
		}
		var c Chunk
		if err := NewReader(bytes.NewReader(input), s).Read(&c, math.MaxInt, len(input)); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			for i := range c.Items {
				if err := CheckLine(&s, &c.Items[i]); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
