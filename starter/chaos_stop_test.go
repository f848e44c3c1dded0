package starter_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
)

func (c *chaos) stopAndResume() {
	stop := c.spawn("stop", "nightly", "--wait")
	stop.await()
	if !strings.Contains(stop.stderr.String(), "nightly: stopped") { // it has just been completed
		stop.exits(starter.ExitOK)
		return
	}
	var r job.Report
	c.reads(&r, "status", "nightly", "--json")
	if len(r.Stragglers) == 0 {
		stop.exits(starter.ExitOK)
	} else {
		stop.exits(starter.ExitStragglers)
		c.requireApart(r)
	}
	c.behind += r.Repeated
	c.spawn("resume", "nightly").exits(starter.ExitOK)
}

// slowness is when a server took so long to answer that heartbeats may have come too late, as on a slow machine.
type slowness struct {
	mu    sync.Mutex
	spans [][2]time.Time
}

// watchSlowness asks a server again and again, until the test ends.
func watchSlowness(t *testing.T, server client.Client) *slowness {
	t.Helper()
	s := &slowness{}
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil {
			began := time.Now()
			limited, enough := context.WithTimeout(ctx, chaosExpiry)
			_, _ = server.DescribeWorkflowExecution(limited, "nightly", "") // how long it takes counts, whatever it says
			enough()
			if ended := time.Now(); ended.Sub(began) > chaosExpiry/4 {
				s.mu.Lock()
				s.spans = append(s.spans, [2]time.Time{began, ended})
				s.mu.Unlock()
			}
			time.Sleep(pollEvery) // how often it is asked, not a wait for something
		}
	})
	t.Cleanup(func() {
		cancel()
		watching.Wait()
	})
	return s
}

// within reports whether the server was slow at some moment between two times.
func (s *slowness) within(from, to time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.spans, func(span [2]time.Time) bool { return span[0].Before(to) && span[1].After(from) })
}

// requireApart requires that a stop has named only what the server gave to a worker when a fault kept the two apart, or
// just before: it may be lost on its way, and nobody can know that before it expires. A failure says whether the server
// was slow before the batch was named.
func (c *chaos) requireApart(stopped job.Report) {
	c.t.Helper()
	require.Zero(c.t, stopped.StragglersOmitted)
	for _, s := range stopped.Stragglers {
		taken := c.taken(s)
		c.t.Logf("taken at %s, still running at the stop: %s", taken.Format(time.StampMilli), s)
		require.True(c.t, taken.Before(c.together), "since %s no fault kept them apart; the server was slow before it was named: %v",
			c.together.UTC().Format(time.StampMilli), c.slow.within(s.Noted.Add(-2*chaosExpiry), s.Noted))
	}
}

// taken is when a worker took the batch that a stop has named, by the server's history.
func (c *chaos) taken(s job.Straggler) (at time.Time) {
	c.t.Helper()
	id := "nightly"
	if s.Leg > 0 {
		id = wire.LegID(id, s.Leg)
	}
	batch := strings.Join(strings.Split(s.Batch, " · ")[:2], " · ") // what is said of its attempts may be of later ones
	scheduled := map[int64]bool{}
	for events := c.dial(c.links[0].to).GetWorkflowHistory(c.t.Context(), id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); {
		e, err := events.Next()
		require.NoError(c.t, err)
		if e.GetActivityTaskScheduledEventAttributes() != nil {
			var summary string
			require.NoError(c.t, converter.GetDefaultDataConverter().FromPayload(e.GetUserMetadata().GetSummary(), &summary))
			scheduled[e.GetEventId()] = strings.HasPrefix(summary, batch) && !e.GetEventTime().AsTime().Before(s.Since)
		}
		if scheduled[e.GetActivityTaskStartedEventAttributes().GetScheduledEventId()] {
			at = e.GetEventTime().AsTime()
		}
	}
	require.NotZero(c.t, at, "%s is not in the history of %s", s.Batch, id)
	return at
}
