package gateway

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

func TestState(t *testing.T) {
	t.Parallel()
	f := &fake{state: func() (job.FeedState, error) {
		return job.FeedState{Capacity: 8, CapacityBytes: 100, Backlog: 8, Session: 3, Accepted: 20}, nil
	}}
	s := serve(t, f, nil)
	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(s.send(http.MethodGet, "/v1/feeds/nightly", "", nil).body), &got))
	for name, want := range map[string]any{"name": "nightly", "capacity": 8.0, "backlog": 8.0, "session": 3.0, "accepted": 20.0, "idle": false, "full": true} {
		require.Equal(t, want, got[name], name)
	}
	require.JSONEq(t, `{"session":2,"discarded":3}`, s.post("/v1/feeds/f/reset", "", "").body)
	require.JSONEq(t, `{}`, s.post("/v1/feeds/f/close", "", "").body)
}
