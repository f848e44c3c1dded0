package frames

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stint-run/stint/internal/wire"
)

// benchmarkLines are a call of n items of about 100 bytes, and the results that echo it.
func benchmarkLines(b *testing.B, n int) (call, results []byte) {
	b.Helper()
	f := wire.ResultsFrame{ID: 7, Results: make([]wire.ResultFrame, n)}
	for i := range f.Results {
		f.Results[i].Value = fmt.Appendf(nil, `{"id":%d,"name":"customer %d","amount":%d,"note":"some text here some text here some text here"}`, i, i, i*7%1000)
	}
	return AppendCall(nil, 7, n, func(i int) []byte { return f.Results[i].Value }, false, false, ""), AppendResults(&f, nil)
}

func BenchmarkDecode(b *testing.B) {
	for _, n := range []int{1, 1000} {
		call, results := benchmarkLines(b, n)
		bench := func(name string, line []byte, decode func() error) {
			b.Run(fmt.Sprintf("%s/n=%d", name, n), func(b *testing.B) {
				b.SetBytes(int64(len(line)))
				b.ReportAllocs()
				for b.Loop() {
					if err := decode(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		var f wire.ResultsFrame
		var c wire.CallFrame
		bench("results", results, func() error { return Decode(results, &f) })
		bench("call", call, func() error { return Decode(call, &c) })
		bench("results by encoding_json", results, func() error { f = wire.ResultsFrame{}; return json.Unmarshal(results, &f) })
		bench("call by encoding_json", call, func() error { c = wire.CallFrame{}; return json.Unmarshal(call, &c) })
	}
}
