package starter

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// The result of a call is printed as the handler gave it.
func TestD3_CallPrintsResultsAsTheyAre(t *testing.T) {
	t.Parallel()
	item := int64(7)
	line, err := (&callOutcome{Index: 1, Item: &item, Result: json.RawMessage(`{"a": "<b>&\u003c", "n": 1.50}`)}).line()
	require.NoError(t, err)
	require.Equal(t, `{"index":1,"item":7,"result":{"a": "<b>&\u003c", "n": 1.50}}`+"\n", string(line))
	line, err = (&callOutcome{Error: &callError{Kind: "error", Message: "<no>"}}).line()
	require.NoError(t, err)
	require.Equal(t, `{"index":0,"error":{"kind":"error","message":"<no>"}}`+"\n", string(line))
}
