package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Items arrive byte for byte as they were put, and usually as plain JSON, which people can read.
func TestItems(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		items Items
		plain bool
	}{
		{"plain", Items{json.RawMessage(`{"a":1}`), json.RawMessage(`"x"`), json.RawMessage(`[null,1.50]`)}, true},
		{"escaped by the client", Items{json.RawMessage(`"\u003c\u2028"`)}, true},
		{"none", nil, true},
		{"to be escaped", Items{json.RawMessage(`"a<b>&c"`), json.RawMessage(`1`)}, false},
		{"separators", Items{json.RawMessage("\"\u2028\u2029\"")}, false},
		{"an object that looks like the quoted form", Items{json.RawMessage(`{"base64":["MQ=="]}`)}, true},
		{"not UTF-8", Items{json.RawMessage("\"<\xff\"")}, false},
	} {
		data, err := json.Marshal(Exchange{Items: c.items})
		require.NoError(t, err, c.name)
		require.Equal(t, c.plain, !bytes.Contains(data, []byte(`"i":{"base64"`)), c.name)
		var back Exchange
		require.NoError(t, json.Unmarshal(data, &back), c.name)
		require.Equal(t, c.items, back.Items, c.name)
	}

	large := Items{json.RawMessage(`"` + strings.Repeat("<", MaxExchangeBytes-2) + `"`)}
	data, err := json.Marshal(large)
	require.NoError(t, err)
	require.Less(t, len(data), 1500<<10, "it fits into a message of 2 MB")

	var items Items
	require.Error(t, json.Unmarshal([]byte(`{"base64":["e30","!"]}`), &items))
	require.ErrorContains(t, json.Unmarshal([]byte(`{"base64":["ew=="]}`), &items), "not JSON")
	require.Error(t, json.Unmarshal([]byte(`"x"`), &items))
}

// What a filter writes for a feed never breaks the stream of answers.
func TestD12_ResultValue(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"a":1}`: `{"a":1}`, "{\"a\":\r1}\r": `{"a": 1}`, "plain": `"plain"`, "\"caf\xe9\"": `"\"caf\ufffd\""`, "caf\xe9": `"caf\ufffd"`, "": `""`,
		strings.Repeat("[", 1001) + strings.Repeat("]", 1001): `"` + strings.Repeat("[", 1001) + strings.Repeat("]", 1001) + `"`,
	} {
		require.Equal(t, want, string(ResultValue([]byte(line))), line)
	}
}
