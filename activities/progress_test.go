package activities

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// 14.1: a worker sends a heartbeat for progress at most every progressEvery, for all batches of a job together, and
// none if there are none.
func TestNews_OneHeartbeatForAllBatches(t *testing.T) {
	t.Parallel()
	var n progress
	now := time.Now()
	running := func(run string) *execution {
		e := &execution{began: now}
		e.in.Ref.Run = run
		n.begin(e)
		return e
	}
	a, b, other := running("job"), running("job"), running("other")
	require.False(t, n.due("job", now.Add(time.Minute)), "nothing is answered yet")
	a.live.Add(3, 0)
	require.False(t, n.due("job", now.Add(progressEvery-1)), "it was just begun")
	now = now.Add(progressEvery)
	require.True(t, n.due("job", now))
	b.live.Add(5, 1)
	require.False(t, n.due("job", now.Add(progressEvery-1)), "one has just been sent, for both")
	now = now.Add(progressEvery)
	require.True(t, n.due("job", now))
	require.False(t, n.due("job", now.Add(progressEvery)), "nothing more is answered")
	require.False(t, n.due("other", now.Add(progressEvery)), "jobs do not mix")
	other.live.Add(1, 0)
	require.True(t, n.due("other", now.Add(progressEvery)))

	b.live.Add(1, 0)
	n.end(a)
	require.False(t, n.due("job", time.Now().Add(progressEvery/2)), "the end of a batch is news itself")
	require.True(t, n.due("job", time.Now().Add(2*progressEvery)))
	n.end(b)
	n.end(other)
	require.Empty(t, n.jobs)
}
