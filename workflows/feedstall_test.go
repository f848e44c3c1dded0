package workflows

import (
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// F10: a feed in which nothing finishes is reported as stalled, by the leg that takes items, until something finishes.
func TestFeed_F10_StalledInTheReport(t *testing.T) {
	t.Parallel()
	f := setupScripted(t, nil)
	since := f.env.Now().UTC().Truncate(time.Second)
	f.at(time.Minute, func() { f.env.SignalWorkflow(wire.SignalStalled, fromLeg(wire.StalledNotice{Leg: 2, Since: since})) })
	var other, stalled, moves job.Report
	f.at(61*time.Second, func() { other = f.query() })
	f.at(62*time.Second, func() {
		f.env.SignalWorkflow(wire.SignalStalled, fromLeg(wire.StalledNotice{Leg: 1, Since: since, At: since.Add(time.Minute), Feed: &job.FeedReport{Backlog: 3}}))
	})
	f.at(63*time.Second, func() { stalled = f.query() })
	f.at(64*time.Second, func() {
		f.env.SignalWorkflow(wire.SignalStalled, fromLeg(wire.StalledNotice{Leg: 1, At: since.Add(time.Hour)}))
		f.env.SignalWorkflow(wire.SignalStalled, fromLeg(wire.StalledNotice{Leg: 1, Since: since, At: since.Add(time.Minute)})) // it was overtaken
	})
	f.at(65*time.Second, func() { moves = f.query() })
	f.stopAt(66 * time.Second)
	report, err := f.run()
	require.NoError(t, err)
	require.Equal(t, job.Stopped, report.State)
	require.Zero(t, other.Feed.StalledSince, "another leg watches")
	require.Equal(t, since, stalled.Feed.StalledSince.UTC())
	require.Zero(t, moves.Feed.StalledSince)
}

// F10: a feed with unfinished items of which none has finished for 30 s is stalled; one in which something finishes now
// and then, also in another leg, is not, and neither is an idle one.
func TestFeedLeg_F10_Stalled(t *testing.T) {
	t.Parallel()
	w := setupFeed(t, nil)
	w.takes = 70 * time.Second
	var early, stalled, more, elsewhere, again, moves job.Progress
	w.put(time.Minute, "a", 0, 1) // it is idle until then
	w.progressAt(89*time.Second, &early)
	w.progressAt(91*time.Second, &stalled)
	w.put(100*time.Second, "b", 1, 1)
	w.progressAt(101*time.Second, &more)
	w.env.RegisterDelayedCallback(func() { w.env.SignalWorkflow(wire.SignalAllFreed, wire.Freed{Items: 1}) }, 102*time.Second)
	w.progressAt(125*time.Second, &elsewhere)
	w.progressAt(129*time.Second, &again) // a is done at 130 s
	w.progressAt(131*time.Second, &moves)
	w.close(4 * time.Minute)
	w.run()
	require.Zero(t, early.Feed.StalledSince)
	require.WithinDuration(t, w.began.Add(time.Minute), stalled.Feed.StalledSince, 50*time.Millisecond)
	require.Equal(t, stalled.Feed.StalledSince, more.Feed.StalledSince, "a put changes nothing")
	require.Zero(t, elsewhere.Feed.StalledSince, "something has finished in another leg")
	require.Zero(t, again.Feed.StalledSince)
	require.Zero(t, moves.Feed.StalledSince)

	w = setupFeed(t, func(s *job.Spec) { s.BatchItems = 1 })
	w.takes = 20 * time.Second
	w.put(time.Second, "slow", 0, 4)
	var never [3]job.Progress
	for i := range never {
		w.progressAt(time.Duration(32+20*i)*time.Second, &never[i])
	}
	w.close(2 * time.Minute)
	w.run()
	for i := range never {
		require.Positive(t, never[i].Feed.Backlog)
		require.Zero(t, never[i].Feed.StalledSince)
	}
}
