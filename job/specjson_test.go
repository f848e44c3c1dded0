package job

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSpecJSON(t *testing.T) {
	t.Parallel()
	spec := Spec{
		Name: "a", Pool: "b", Files: &Files{Input: []string{"in.jsonl"}}, Output: "out.jsonl", Window: 7, MaxItem: 5,
		Expiry: 90 * time.Second, CallTimeout: NoLimit, BatchTimeout: time.Hour, Backoff: time.Millisecond, Grace: time.Nanosecond,
	}
	data, err := json.Marshal(spec)
	require.NoError(t, err)
	require.Contains(t, string(data), `"expiry":"1m30s"`)
	require.Contains(t, string(data), `"call_timeout":"none"`)
	var back Spec
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, spec, back)

	data, err = json.Marshal(Spec{Name: "a"})
	require.NoError(t, err)
	require.NotContains(t, string(data), "expiry", "what is not set is left out")

	require.ErrorContains(t, json.Unmarshal([]byte(`{"expiry":"soon"}`), &back), "soon")
}
