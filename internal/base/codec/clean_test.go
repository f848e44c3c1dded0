package codec

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// A clean encoder writes valid UTF-8 whatever a value holds; whose values hold JSON, or write it themselves, is not
// clean.
func TestEncoder_Clean(t *testing.T) {
	t.Parallel()
	const bad = "caf\xe9 \xff\xc0"
	raw := json.RawMessage(`"` + bad + `"`)
	for _, test := range []struct {
		value any
		clean bool
	}{
		{bad, true},
		{record{Name: bad, Note: bad}, true},
		{map[string][]string{bad: {bad}}, true},
		{[]byte(bad), true},
		{struct {
			base
			At time.Time
			P  *string
		}{base: base{Label: bad}, P: new(bad)}, true},
		{raw, false},
		{[]json.RawMessage{raw}, false},
		{map[string]struct{ R *json.RawMessage }{"a": {&raw}}, false},
		{[1]json.Number{"1"}, false},
		{[]any{bad}, false},
		{struct{ Z zeroer }{}, true},
	} {
		var out bytes.Buffer
		enc := ForEncoding(reflect.TypeOf(test.value)).NewEncoder(&out)
		require.Equal(t, test.clean, enc.Clean(), "%T", test.value)
		require.NoError(t, enc.Encode(test.value))
		if test.clean {
			require.True(t, utf8.Valid(out.Bytes()), "%T: %q", test.value, out.String())
		}
		require.False(t, Standard.NewEncoder(&out).Clean())
	}
}
