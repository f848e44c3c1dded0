package job

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/limits"
	"github.com/stretchr/testify/require"
)

func feedSpec() Spec {
	return Spec{Name: "risk", Pool: "risk", Source: SourceFeed, Output: "out/"}.WithDefaults()
}

func TestSpec_Feed(t *testing.T) {
	t.Parallel()
	s := feedSpec()
	require.NoError(t, s.Validate())
	require.Equal(t, "jsonl", s.Format)
	require.Equal(t, limits.DefaultCapacity, s.Capacity)
	require.EqualValues(t, limits.DefaultCapacityBytes, s.CapacityBytes)
	require.Equal(t, limits.DefaultKeep, s.Keep)
	require.Zero(t, s.BatchWait)

	s.BatchWait = 1500 * time.Millisecond
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
		{"inputs", func(s *Spec) { s.Input = []string{"a"} }, "a feed has no inputs"},
		{"csv", func(s *Spec) { s.Format = "csv" }, "use jsonl or text"},
		{"negative capacity", func(s *Spec) { s.Capacity = -1 }, "use 1 to 100000 items"},
		{"capacity too large", func(s *Spec) { s.Capacity = limits.MaxCapacity + 1 }, "use 1 to 100000 items"},
		{"bytes too few", func(s *Spec) { s.CapacityBytes = 1 }, "use 1024 to"},
		{"short wait", func(s *Spec) { s.BatchWait = 50 * time.Millisecond }, "FeedOptions.Linger"},
		{"negative wait", func(s *Spec) { s.BatchWait = -time.Second }, "BatchWait"},
		{"keep", func(s *Spec) { s.Keep = time.Millisecond }, "Keep"},
		{"source", func(s *Spec) { s.Source = "queue" }, `"queue": use files, feed or clock`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := feedSpec()
			test.change(&s)
			require.ErrorContains(t, s.Validate(), test.want)
		})
	}
	files := Spec{Name: "a", Pool: "b", Input: []string{"in"}, Output: "out", Capacity: 5}.WithDefaults()
	require.ErrorContains(t, files.Validate(), "is for feeds only")
}
