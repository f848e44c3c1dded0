package records

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/base/jsonscan"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

// TestSurelyJSON: it is sure of what is usual, and never of what is invalid.
func TestSurelyJSON(t *testing.T) {
	t.Parallel()
	for _, usual := range []string{
		`{}`, `[]`, ` { } `, `[ ]`, `""`, `0`, `-0`, `-1.5e+30`, `1E-2`, `true`, `false`, `null`,
		`{"a":1,"b":[1,2,{"c":"d"}],"":null}`, "\t[ 1 ,\r\n2 ]\n", `"\"\\\/\b\f\n\r\t"`, `"12345678"`, `"1234567\""`,
		`"é und ü"`, `"\u00e9"`, "\"\x7f\x80\xff\"", strings.Repeat("[", jsonscan.MaxDepth) + strings.Repeat("]", jsonscan.MaxDepth),
		`{"id":1,"name":"customer 1","note":"some text here some text here some text here"}`,
	} {
		require.True(t, json.Valid([]byte(usual)), usual)
		sure, ascii := surelyJSON([]byte(usual))
		require.True(t, sure, usual)
		require.False(t, ascii && firstNonASCII(usual) >= 0, usual)
	}
	deep := strings.Repeat("[", jsonscan.MaxDepth+1) + strings.Repeat("]", jsonscan.MaxDepth+1)
	sure, _ := surelyJSON([]byte(deep))
	require.False(t, sure, deep)
	require.True(t, validJSON([]byte(deep)), deep)
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

// A line that is not UTF-8 is refused for that, wherever the fault is.
func TestCheckLine_UTF8(t *testing.T) {
	t.Parallel()
	shape := wire.Shape{Format: JSONL}
	for _, text := range []string{"\"\xff\"", "{\"a\xe9\":1}", "[1,\"12345678\xc3\"]", "1 \xff", "\xff"} {
		err := CheckLine(&shape, &Item{Raw: []byte(text)})
		require.ErrorContains(t, err, "UTF-8", "%q", text)
	}
	for _, text := range []string{`"é"`, `{"ключ":"значение, und noch mehr"}`, `"ascii"`} {
		require.NoError(t, CheckLine(&shape, &Item{Raw: []byte(text)}), "%q", text)
	}
}
