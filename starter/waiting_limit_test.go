package starter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stint-run/stint/jobs"
	"github.com/stretchr/testify/require"
)

// A limit that has begun is one over all that a command does; another counts anew.
func TestS19_OneLimitForAWholeCommand(t *testing.T) {
	t.Parallel()
	deadline := func(w waitLimit) time.Time {
		ctx, cancel := w.limit(t.Context())
		defer cancel()
		until, has := ctx.Deadline()
		require.True(t, has)
		return until
	}
	limit := waitLimit{timeout: time.Hour}
	require.NotEqual(t, deadline(limit), deadline(limit))
	limit = limit.begun()
	require.Equal(t, deadline(limit), deadline(limit))
	require.Equal(t, deadline(limit).Add(time.Minute), deadline(limit.and(time.Minute)))
	require.Equal(t, time.Hour+time.Minute, limit.and(time.Minute).timeout)

	ctx, cancel := waitLimit{}.begun().limit(t.Context())
	defer cancel()
	_, has := ctx.Deadline()
	require.False(t, has, "no limit stays none")
	ctx, cancel = waitLimit{timeout: time.Nanosecond}.begun().limit(t.Context())
	defer cancel()
	<-ctx.Done()
	require.True(t, isLimit(ctx))
}

// All pools of a job are looked at, also if the first ones do not answer; what is said is in their order.
func TestSilentPools_AllAreLookedAt(t *testing.T) {
	t.Parallel()
	pools := []string{"a", "", "b", "c", "served"}
	var others sync.WaitGroup
	others.Add(3)
	said, err := silentPools(pools, func(pool string) (string, error) {
		switch pool {
		case "a":
			others.Wait() // the others do not wait for it
		default:
			others.Done()
		}
		if pool == "served" {
			return "", nil
		}
		return "no worker serves " + pool, nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{"no worker serves a", "no worker serves b", "no worker serves c"}, said)

	away := errors.New("away")
	_, err = silentPools(pools, func(string) (string, error) { return "", away })
	require.ErrorIs(t, err, away)
}

// The exit code of an error stays what it is when it is said who does not answer.
func TestUnanswered_KeepsTheExitCode(t *testing.T) {
	t.Parallel()
	silent := &jobs.UnansweredError{Name: "j", Err: context.DeadlineExceeded}
	require.Equal(t, ExitFailed, unansweredCode(t.Context(), silent))
	require.Equal(t, ExitStragglers, unansweredCode(t.Context(), fmt.Errorf("waiting: %w", &codeError{code: ExitStragglers, err: silent})))
	over, cancel := waitLimit{timeout: time.Nanosecond}.limit(t.Context())
	defer cancel()
	require.Equal(t, ExitTimeout, unansweredCode(over, silent))
}

// The time that a call is said to have waited is the whole one.
func TestCall_SaysTheWholeWait(t *testing.T) {
	t.Parallel()
	const before = 300 * time.Millisecond
	err := waitedMore(&jobs.FeedError{Code: jobs.CodeSilent, Feed: "f", Waited: 700 * time.Millisecond}, before)
	require.EqualError(t, err, "feed f has not answered within 1s")
	err = waitedMore(&jobs.FeedError{Code: jobs.CodeTimeout, Accepted: true, Queued: new(700 * time.Millisecond), Waited: 700 * time.Millisecond}, before)
	require.EqualError(t, err, "no outcome within 1s, all of that in the queue")
	err = waitedMore(&jobs.FeedError{Code: jobs.CodeTimeout, Accepted: true, Queued: new(time.Millisecond), Waited: 700 * time.Millisecond}, before)
	require.EqualError(t, err, "no outcome within 1s, 1ms of that in the queue")
	require.NoError(t, waitedMore(nil, before))
}
