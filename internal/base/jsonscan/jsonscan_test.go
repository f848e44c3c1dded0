package jsonscan

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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

func TestValue(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		`1`, `-1.5e+30`, `"a"`, `"\u00e9\uD83d\""`, `true`, `null`, `{}`, `[]`, `{"a":[1,{"b":null}], "c" : "d"}`, `"é"`,
	} {
		for _, behind := range []string{"", " ", ",1", "]", "}", ` "x"`} {
			end, ascii := Value([]byte("x:"+value+behind), 2)
			require.Equal(t, 2+len(value), end, "%s%s", value, behind)
			require.True(t, !ascii || value != `"é"`)
		}
	}
	for _, none := range []string{``, ` 1`, `,`, `]`, `{"a":1`, `[1`, `"a`, `"\u00g0"`, `"\u00`, `"\`, `01`, `+1`, `nul`} {
		end, _ := Value([]byte(none), 0)
		require.Equal(t, -1, end, none)
	}
}

// FuzzValue: what ends somewhere is, up to there, valid to encoding/json, and it is the first value
// that encoding/json finds.
func FuzzValue(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[1,2.5e-3]`, `"\u00e9\n"`, ` null `, `{"a":}`, `01`, `-`, `1.`, `1e`, "\"\x01\"", `"\x"`, `"\u12"`, `[,]`,
		`{"a":1,}`, `tru`, ``, ` `, `1 2`, "\"\x7f\"", `{"a" 1}`, `{1:2}`, `[[[]]]`, `{"a":1}x`, `"\u00e9`, `"12345678"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		begin := Space(b, 0)
		end, ascii := Value(b, begin)
		if end < 0 {
			return
		}
		value := b[begin:end]
		require.True(t, json.Valid(value), "%q", value)
		require.Equal(t, bytes.TrimSpace(value), value)
		if ascii {
			require.Equal(t, -1, bytes.IndexFunc(value, func(r rune) bool { return r >= 0x80 }))
		}
		var first json.RawMessage
		require.NoError(t, json.NewDecoder(bytes.NewReader(b)).Decode(&first))
		require.Equal(t, string(value), string(first))
	})
}
