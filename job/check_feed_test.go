package job

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stretchr/testify/require"
)

func feedSpec() Spec {
	return Spec{Name: "risk", Pool: "risk", Feed: &Feed{}, Output: "out/"}.WithDefaults()
}

func TestSpec_Feed(t *testing.T) {
	t.Parallel()
	s := feedSpec()
	require.NoError(t, s.Validate())
	require.Equal(t, "jsonl", s.Format)
	require.Equal(t, limits.DefaultCapacity, s.Feed.Capacity)
	require.EqualValues(t, limits.DefaultCapacityBytes, s.Feed.CapacityBytes)
	require.Equal(t, limits.DefaultKeep, s.Feed.Keep)
	require.Zero(t, s.Feed.BatchWait)

	s.Feed.BatchWait = 1500 * time.Millisecond
	data, err := json.Marshal(s)
	require.NoError(t, err)
	require.Contains(t, string(data), `"batch_wait":"1.5s"`)
	var again Spec
	require.NoError(t, json.Unmarshal(data, &again))
	require.Equal(t, s, again)
}

func TestSpec_FeedRefused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*Spec)
		want   string
	}{
		{"inputs", func(s *Spec) { s.Files = &Files{Input: []string{"a"}} }, "Files excludes Feed"},
		{"csv", func(s *Spec) { s.Format = "csv" }, "use jsonl or text"},
		{"negative capacity", func(s *Spec) { s.Feed.Capacity = -1 }, "use 1 to 100000 items"},
		{"capacity too large", func(s *Spec) { s.Feed.Capacity = limits.MaxCapacity + 1 }, "use 1 to 100000 items"},
		{"bytes too few", func(s *Spec) { s.Feed.CapacityBytes = 1 }, "use 1024 to"},
		{"short wait", func(s *Spec) { s.Feed.BatchWait = 50 * time.Millisecond }, "FeedOptions.Linger"},
		{"negative wait", func(s *Spec) { s.Feed.BatchWait = -time.Second }, "BatchWait"},
		{"keep", func(s *Spec) { s.Feed.Keep = time.Millisecond }, "Keep"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := feedSpec()
			test.change(&s)
			require.ErrorContains(t, s.Validate(), test.want)
		})
	}
	both := Spec{Name: "a", Pool: "b", Files: &Files{Input: []string{"in"}}, Output: "out", Feed: &Feed{Capacity: 5}}.WithDefaults()
	require.EqualError(t, both.Validate(), "Files excludes Feed: a job has one source of items, use one of them")
}
