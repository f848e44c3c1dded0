package records

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSurelyJSON: it is sure of what is usual, and never of what is invalid.
func TestSurelyJSON(t *testing.T) {
	t.Parallel()
	for _, usual := range []string{
		`{}`, `[]`, ` { } `, `[ ]`, `""`, `0`, `-0`, `-1.5e+30`, `1E-2`, `true`, `false`, `null`,
		`{"a":1,"b":[1,2,{"c":"d"}],"":null}`, "\t[ 1 ,\r\n2 ]\n", `"\"\\\/\b\f\n\r\t"`, `"12345678"`, `"1234567\""`,
		`"é und ü"`, "\"\x7f\x80\xff\"", strings.Repeat("[", maxSureDepth) + strings.Repeat("]", maxSureDepth),
		`{"id":1,"name":"customer 1","note":"some text here some text here some text here"}`,
	} {
		require.True(t, json.Valid([]byte(usual)), usual)
		require.True(t, surelyJSON([]byte(usual)), usual)
	}
	deep := strings.Repeat("[", maxSureDepth+1) + strings.Repeat("]", maxSureDepth+1)
	for _, unusual := range []string{`"\u00e9"`, deep} {
		require.False(t, surelyJSON([]byte(unusual)), unusual)
		require.True(t, validJSON([]byte(unusual)), unusual)
	}
	invalid := []string{
		``, ` `, `{`, `}`, `[`, `]`, `[}`, `{]`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{a:1}`, `{"a" 1}`, `{"a":1 "b":2}`,
		`[1,]`, `[,1]`, `[1 2]`, `[1]]`, `1 2`, `01`, `-`, `+1`, `1.`, `.5`, `1e`, `1e+`, `--1`, `tru`, `nul`, `falsey`, `"`, `"a`, `"\`,
		`"\x"`, `"\u12"`, `"\u12g4"`, "\"\x00\"", "\"\x1f\"", "\"1234567\n\"", "\"12345678\t12345678\"", `"1234567`, `"12345678`,
		strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), `{"a":[}]`, `[[1]`, `{"a":{"b":1}`,
	}
	for _, text := range invalid {
		require.False(t, json.Valid([]byte(text)), text)
		require.False(t, surelyJSON([]byte(text)), text)
		require.False(t, validJSON([]byte(text)), text)
	}
}

// A byte that ends a run of plain ones is found wherever it is, whatever is around it.
func TestSkipPlain(t *testing.T) {
	t.Parallel()
	for _, around := range []byte{' ', 'a', '!', '#', '[', ']', 0x7f, 0x80, 0xff} {
		for _, end := range []byte{'"', '\\', 0, 1, 0x1f} {
			for at := range 20 {
				b := []byte(strings.Repeat(string([]byte{around}), 20))
				require.Equal(t, 20, skipPlain(b, at))
				b[at] = end
				for from := range at + 1 {
					require.Equal(t, at, skipPlain(b, from), "%q", b)
				}
			}
		}
	}
}
