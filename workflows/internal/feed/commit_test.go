package feed

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/workflows/internal/intake"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
)

// What a stopped feed spills, and what it commits, is in commits that fit: also if every second of very many small
// items is unfinished.
func TestD3_LargestCommits(t *testing.T) {
	t.Parallel()
	in := intake.New(intake.Limits{Capacity: limits.MaxCapacity, Bytes: limits.MaxCapacityBytes, Keep: time.Hour})
	in.Open(wire.Opening{First: 1 << 50, Session: 1})
	now := time.Unix(1<<30, 0)
	var list wire.Items
	for range 1000 {
		list = append(list, json.RawMessage(`"<"`))
	}
	for range limits.MaxCapacity / 1000 {
		in.Accept(wire.Exchange{Client: "c", Items: list}, now)
	}
	for i := range limits.MaxCapacity {
		b, ok := in.Take(intake.Limit{Items: 1, Bytes: 1 << 20}, now)
		require.True(t, ok)
		if i%2 == 0 {
			in.Finish(b, []wire.Outcome{{}}, now)
		}
	}
	c := &feedCommits{leg: &feedLeg{intake: in, in: wire.FeedLegInput{Ref: wire.Ref{Job: strings.Repeat("j", 200), Run: strings.Repeat("r", 36), Born: 1 << 50, Store: "/store/", Sources: "/store/"}}}}
	items := 0
	for _, some := range c.unfinished() {
		commit := c.input()
		commit.Unfinished = some
		require.LessOrEqual(t, encodedCommit(t, commit), wire.MaxCounted)
		for _, r := range some {
			items += len(r.Items)
		}
	}
	require.Equal(t, limits.MaxCapacity/2, items)

	for range 5000 { // results of one byte, and of many
		c.entries = append(c.entries, wire.FeedEntry{
			Entry:  wire.Entry{Batch: wire.Batch{First: 1 << 50, Count: 1}, OK: 1, Session: 1 << 50, Sum: 1 << 31},
			Inline: &wire.Inline{Results: []byte("1\n")},
		})
	}
	for range 100 {
		c.entries = append(c.entries, wire.FeedEntry{Inline: &wire.Inline{Results: make([]byte, wire.MaxInline)}})
	}
	for from := 0; from < len(c.entries); {
		to := c.fitting(from)
		commit := c.input()
		commit.Entries = c.entries[from:to]
		require.LessOrEqual(t, encodedCommit(t, commit), wire.MaxCounted)
		from = to
	}
}

func encodedCommit(t *testing.T, v any) int {
	t.Helper()
	payload, err := converter.GetDefaultDataConverter().ToPayload(v)
	require.NoError(t, err)
	return len(payload.GetData())
}
