package job

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a leg that never ran was to name is kept.
func TestGivenInput_Pending(t *testing.T) {
	t.Parallel()
	var leg givenInput
	require.NoError(t, json.Unmarshal([]byte(`{"ref":{"job":"a"},"number":3,"previous":["m1","m2"],"page":"AA=="}`), &leg))
	require.Len(t, leg.pending(), 1)
	require.JSONEq(t, `{"ref":{"job":"a"},"leg":3,"previous":["m1","m2"]}`, string(leg.pending()[0]))

	var nothing givenInput
	require.NoError(t, json.Unmarshal([]byte(`{"spec":{},"number":1}`), &nothing))
	require.Empty(t, nothing.pending())
}
