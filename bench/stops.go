package main

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/job"
)

// stopped is how long it took from a stop until the last call had seen it.
type stopped struct {
	asked    time.Duration // from the call of Stop
	recorded time.Duration // from its return
}

const (
	// pushLimit is generous, as the others are: on a busy machine single steps take ten times as long.
	pushLimit = time.Second
	// longLegLimit is that of a leg in the middle of its page: it gets a stop at once.
	longLegLimit = pushLimit
	// heartbeatSlack is for the stop's own way to the leg, and the call's to its handler.
	heartbeatSlack = 500 * time.Millisecond
	// boundShare is the bound on how long a running batch hears nothing of a stop, in shares of the
	// expiry: it heartbeats every quarter, and the SDK lets one through in 0.8.
	boundShare = 1.05
	// shortExpiry is for what waits for it.
	shortExpiry = 2 * time.Second
)

func bound(expiry time.Duration) time.Duration { return time.Duration(boundShare * float64(expiry)) }

func heartbeatLimit() time.Duration { return bound(shortExpiry) + heartbeatSlack }

// allSlots returns a job that has every slot busy with calls that end only when they are asked to.
func allSlots(s series) series {
	s.calls = clusterWorkers * clusterSlots
	s.spec.Window = s.calls
	return s
}

func stopsPushed() series {
	return allSlots(series{lanes: 1, each: 40, limit: pushLimit, spec: job.Spec{Expiry: limits.DefaultExpiry}})
}

func stopsHeartbeats() series {
	return allSlots(series{
		lanes: 5, each: 6, noPush: true, spread: shortExpiry, limit: heartbeatLimit(), spec: job.Spec{Expiry: shortExpiry},
	})
}

// stopsPaced are of a job in the middle of a long leg, of which batches wait in the pool's queue.
func stopsPaced() series {
	return series{lanes: 1, each: 20, calls: 45, call: time.Second, spread: time.Second, limit: longLegLimit}
}

// stops finds out how long a stop takes to reach the last of the calls in hand.
func stops(args []string, s series) error {
	all, err := run(context.Background(), s, args[2], func(ctx context.Context, c *cluster, share float64) (stopped, error) {
		return stopOnce(ctx, c, args[0], s, share)
	})
	if err != nil {
		return err
	}
	var asked, recorded []time.Duration
	for _, one := range all {
		asked, recorded = append(asked, one.asked), append(recorded, one.recorded)
	}
	p50, p99 := quantile(asked, 0.5), quantile(asked, 0.99)
	expiry := s.spec.WithDefaults().Expiry
	of := func(d time.Duration) string {
		return fmt.Sprintf("%d ms (%.1f %%)", d.Milliseconds(), 100*d.Seconds()/bound(expiry).Seconds())
	}
	note := fmt.Sprintf("%d stops: p50 %s, p99 %s of the bound of %v; %d and %d ms from where Stop has returned",
		len(all), of(p50), of(p99), bound(expiry), quantile(recorded, 0.5).Milliseconds(), quantile(recorded, 0.99).Milliseconds())
	return reportLimited(args[1], p50, p99, s.limit, note)
}

// stopOnce stops a job.
func stopOnce(ctx context.Context, c *cluster, input string, s series, share float64) (stopped, error) {
	r, _, err := c.begin(ctx, input, s, share)
	if err != nil {
		return stopped{}, err
	}
	asked := time.Now()
	if err := r.Stop(ctx, job.Stop{}); err != nil {
		return stopped{}, err
	}
	recorded := time.Now()
	last, err := c.ended(ctx, r)
	return stopped{asked: last.Sub(asked), recorded: last.Sub(recorded)}, err
}
