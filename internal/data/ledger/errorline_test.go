package ledger

import (
	"testing"

	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

func TestFailureInput(t *testing.T) {
	t.Parallel()
	csv := wire.Shape{Format: records.CSV, Columns: []string{"a"}}
	tests := []struct {
		name  string
		shape wire.Shape
		raw   string
		want  string
	}{
		{"json value", wire.Shape{Format: records.JSONL}, `{"a": 1}`, `{"a": 1}`},
		{"no json", wire.Shape{Format: records.JSONL}, `{"a`, `"{\"a"`},
		{"csv record", csv, "x", `{"a":"x"}`},
		{"no csv record", csv, "x,y", `"x,y"`},
		{"text", wire.Shape{Format: records.Text}, "a \"b\"", `"a \"b\""`},
		{"not UTF-8", wire.Shape{Format: records.Text}, "a\xff", `{"base64":"Yf8="}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := failureInput(&test.shape, &records.Item{Raw: []byte(test.raw), Size: int64(len(test.raw))})
			require.JSONEq(t, test.want, string(got))
		})
	}
	require.Equal(t, "null", string(failureInput(&csv, &records.Item{Size: 5})))
}
