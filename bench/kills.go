package main

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-run/stint/job"
)

// killed is how long it took from the SIGKILL of a worker until its batches ran elsewhere.
type killed struct {
	took        []time.Duration // of each batch
	coordinated bool            // whether it coordinated the job as well
}

// killCalls leave the workers that stay with slots for all of them.
const killCalls = (clusterWorkers - 1) * clusterSlots

const (
	// killSlack is what a takeover may take beyond the expiry and the back-off: it is generous.
	killSlack = time.Second
	// killSticky is for how long the job's next step waits for the killed worker, if that coordinated it.
	killSticky = 2 * time.Second
)

func killLimit(backoff time.Duration) time.Duration { return shortExpiry + backoff + killSlack }

// kills finds out how long the batches of a killed worker take to run elsewhere.
func kills(args []string, backoff time.Duration) error {
	s := series{
		lanes: 4, each: 3, calls: killCalls, spread: shortExpiry, limit: killLimit(backoff),
		spec: job.Spec{Window: killCalls, Expiry: shortExpiry, Backoff: backoff},
	}
	all, err := run(context.Background(), s, args[2], func(ctx context.Context, c *cluster, share float64) (killed, error) {
		return killOnce(ctx, c, args[0], s, share)
	})
	if err != nil {
		return err
	}
	var took, others []time.Duration
	coordinators := 0
	var worst time.Duration
	for _, k := range all {
		took = append(took, k.took...)
		most := quantile(k.took, 1)
		if k.coordinated {
			coordinators++
			most -= killSticky
		} else {
			others = append(others, k.took...)
		}
		worst = max(worst, most)
	}
	of := func(share float64, of []time.Duration) string {
		return fmt.Sprintf("%.2f", quantile(of, share).Seconds()/s.spec.Expiry.Seconds())
	}
	note := fmt.Sprintf("times the expiry of %v: p50 %s, max %s (%d kills, %d batches); p50 %s, max %s without the %d kills of who coordinated the job",
		s.spec.Expiry, of(0.5, took), of(1, took), len(all), len(took), of(0.5, others), of(1, others), coordinators)
	return reportLimited(args[1], quantile(took, 0.5), worst, s.limit, note)
}

// killOnce kills the worker that has the most batches, at another moment between two heartbeats each time,
// and then puts another in its place.
func killOnce(ctx context.Context, c *cluster, input string, s series, share float64) (killed, error) {
	r, places, err := c.begin(ctx, input, s, share)
	if err != nil {
		return killed{}, err
	}
	victim, lost := busiest(places)
	coordinator, err := c.coordinator(ctx, r.Name())
	if err != nil {
		return killed{}, err
	}
	k := killed{coordinated: victim == coordinator}
	at, err := c.kill(victim)
	if err != nil {
		return k, err
	}
	for lost > 0 {
		e, err := c.next(ctx)
		if err != nil {
			return k, err
		}
		if e.what == eventBegan && e.from != victim && places[e.item] == victim {
			places[e.item] = e.from
			k.took = append(k.took, e.at.Sub(at))
			lost--
		}
	}
	if err := c.addWorker(); err != nil {
		return k, err
	}
	if err := r.Stop(ctx, job.Stop{}); err != nil {
		return k, err
	}
	_, err = c.ended(ctx, r)
	return k, err
}

// busiest returns the worker with the most calls, and how many those are.
func busiest(places map[int]*process) (*process, int) {
	calls := map[*process]int{}
	var most *process
	for _, p := range places {
		calls[p]++
		if most == nil || calls[p] > calls[most] {
			most = p
		}
	}
	return most, calls[most]
}
