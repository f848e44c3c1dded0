package records

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

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
		sure, ascii := surelyJSON([]byte(usual))
		require.True(t, sure, usual)
		require.False(t, ascii && firstNonASCII(usual) >= 0, usual)
	}
	deep := strings.Repeat("[", maxSureDepth+1) + strings.Repeat("]", maxSureDepth+1)
	for _, unusual := range []string{`"\u00e9"`, deep} {
		sure, _ := surelyJSON([]byte(unusual))
		require.False(t, sure, unusual)
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
		sure, ascii := surelyJSON([]byte(text))
		require.False(t, sure, text)
		require.False(t, ascii, text)
		require.False(t, validJSON([]byte(text)), text)
	}
}

func firstNonASCII(s string) int {
	return strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}

// What ends a string is found wherever it is, whatever is around it, and bytes that are not ASCII
// are never missed.
func TestEndString(t *testing.T) {
	t.Parallel()
	for _, around := range []byte{' ', 'a', '!', '#', '[', ']', 0x7f, 0x80, 0xff} {
		for _, end := range []byte{'"', '\\', 0, 1, 0x1f} {
			for at := range 20 {
				b := []byte(strings.Repeat(string([]byte{around}), 20))
				var seen uint64
				require.Equal(t, -1, endString(b, at, &seen))
				b[at] = end
				for from := range at + 1 {
					seen = 0
					got := endString(b, from, &seen)
					if end == '"' {
						require.Equal(t, at+1, got, "%q", b)
						require.True(t, around < 0x80 || from == at || seen&tops != 0, "%q", b)
					} else {
						require.Equal(t, -1, got, "%q", b)
					}
				}
			}
		}
	}
}

// A line that is not UTF-8 is refused for that, wherever the fault is.
func TestCheckLine_UTF8(t *testing.T) {
	t.Parallel()
	shape := Shape{Format: JSONL}
	for _, text := range []string{"\"\xff\"", "{\"a\xe9\":1}", "[1,\"12345678\xc3\"]", "1 \xff", "\xff"} {
		err := shape.CheckLine(&Item{Raw: []byte(text)})
		require.ErrorContains(t, err, "UTF-8", "%q", text)
	}
	for _, text := range []string{`"é"`, `{"ключ":"значение, und noch mehr"}`, `"ascii"`} {
		require.NoError(t, shape.CheckLine(&Item{Raw: []byte(text)}), "%q", text)
	}
}
