package workflows

import (
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// F10: a feed in which nothing finishes is reported as stalled, by the leg that takes items, until something finishes.
func TestFeed_F10_StalledInTheReport(t *testing.T) {
	t.Parallel()
	f := setupScripted(t, nil)
	since := f.env.Now().UTC().Truncate(time.Second)
	f.at(time.Minute, func() { f.env.SignalWorkflow(signalStalled, fromLeg(stalledNotice{Leg: 2, Since: since})) })
	var other, stalled, moves job.Report
	f.at(61*time.Second, func() { other = f.query() })
	f.at(62*time.Second, func() {
		f.env.SignalWorkflow(signalStalled, fromLeg(stalledNotice{Leg: 1, Since: since, Feed: &job.FeedReport{Backlog: 3}}))
	})
	f.at(63*time.Second, func() { stalled = f.query() })
	f.at(64*time.Second, func() { f.env.SignalWorkflow(signalStalled, fromLeg(stalledNotice{Leg: 1})) })
	f.at(65*time.Second, func() { moves = f.query() })
	f.stopAt(66 * time.Second)
	report, err := f.run()
	require.NoError(t, err)
	require.Equal(t, job.Stopped, report.State)
	require.Zero(t, other.Feed.StalledSince, "another leg watches")
	require.Equal(t, since, stalled.Feed.StalledSince.UTC())
	require.Zero(t, moves.Feed.StalledSince)
}
