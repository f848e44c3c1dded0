package jsonscan

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestD11_TooDeep(t *testing.T) {
	t.Parallel()
	nested := func(n int, open, inner, end string) []byte {
		return []byte(strings.Repeat(open, n) + inner + strings.Repeat(end, n))
	}
	require.False(t, TooDeep(nested(MaxNesting, "[", "", "]")))
	require.True(t, TooDeep(nested(MaxNesting+1, "[", "", "]")))
	require.False(t, TooDeep(nested(MaxNesting, `{"a":`, "1", "}")))
	require.True(t, TooDeep(nested(MaxNesting+1, `{"a":`, "1", "}")))
	require.True(t, TooDeep(nested(9000, "[", "", "]")))
	require.False(t, TooDeep(nested(1, "[", `"`+strings.Repeat(`[\"{`, 2000)+`"`, "]")), "brackets in a string")
	require.False(t, TooDeep([]byte("["+strings.Repeat("[],", 2000)+"[]]")), "side by side")
	require.False(t, TooDeep([]byte(strings.Repeat(`"\`, 3000))), "what is no JSON")
}

func TestLoosely(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		`NaN,1`: 3, `NaN}`: 3, `"a]"]`: 4, "\"a\x01\\\"b\",": 7, `{"a":[1,{"b":"]}"}]},`: 20, `[1`: -1, `"a`: 2, `x`: -1, ``: -1,
	} {
		require.Equal(t, want, Loosely([]byte(text), 0), text)
	}
}
