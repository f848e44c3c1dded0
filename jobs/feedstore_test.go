package jobs_test

import (
	"testing"

	"github.com/stint-run/stint/jobs"
	"github.com/stretchr/testify/require"
)

func TestFeedCursor(t *testing.T) {
	t.Parallel()
	for _, c := range []jobs.FeedCursor{{}, {Session: 2, Item: 1200, Line: 7}, {Item: 1 << 60}} {
		got, err := jobs.ParseFeedCursor(c.String())
		require.NoError(t, err)
		require.Equal(t, c, got)
	}
	got, err := jobs.ParseFeedCursor("")
	require.NoError(t, err)
	require.Zero(t, got)
	for _, text := range []string{"1", "1.2", "1.2.3.4", "a.b.c", "-1.0.0", "0.-1.0", "0.0.-1", "1.2.3 ", " 1.2.3", "01.2.3", "1.2.99999999999999999999"} {
		_, err := jobs.ParseFeedCursor(text)
		require.ErrorContains(t, err, "invalid cursor", text)
	}
}
