package activities

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/base/procs"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/wire"
	"go.temporal.io/sdk/activity"
)

const (
	// servedPoll is the time between two looks at the pools' pollers.
	servedPoll = time.Second
	// servedFirst is how many looks a pool without a worker gets before it is said to have none: the server takes a
	// moment to know a worker that has just been started.
	servedFirst = 3
	// servedLooks is how many looks an execution takes: about twelve hours, so that a job that waits for a year has
	// some 5,000 events of it.
	servedLooks = 12 * 3600
)

// Served looks at the pollers of pools until all pools are served, or until other ones are unserved than those that are
// known. It returns after twelve hours in any case.
func (a *Activities) Served(ctx context.Context, in wire.ServedInput) (wire.ServedResult, error) {
	defer beating(ctx)()
	var ends <-chan struct{}
	if activity.IsActivity(ctx) {
		ends = activity.GetWorkerStopChannel(ctx)
	}
	looks := time.NewTicker(servedPoll)
	defer looks.Stop()
	for look := 1; ; look++ {
		unserved, err := a.unserved(ctx, in.Pools)
		switch {
		case err != nil:
			return wire.ServedResult{}, sendable(ledger.Raised(err))
		case len(unserved) == 0, look >= servedFirst && !slices.Equal(unserved, in.Known), look >= servedLooks:
			return wire.ServedResult{Unserved: unserved}, nil
		}
		select {
		case <-looks.C:
		case <-ends:
			return wire.ServedResult{Unserved: in.Known}, nil // the next execution looks on
		case <-ctx.Done():
			return wire.ServedResult{}, context.Cause(ctx)
		}
	}
}

// unserved returns those of the pools that have no pollers, in their order.
func (a *Activities) unserved(ctx context.Context, pools []string) (none []string, err error) {
	if a.opts.Pollers == nil {
		return nil, nil
	}
	logic := 1
	if activity.IsActivity(ctx) {
		logic = wire.LogicOf(activity.GetInfo(ctx).TaskQueue) // the job's
	}
	for _, pool := range pools {
		n, err := a.opts.Pollers(ctx, pool, logic)
		if err != nil {
			return nil, fmt.Errorf("looking for workers of pool %s: %w", pool, err)
		}
		if n == 0 {
			none = append(none, pool)
		}
	}
	return none, nil
}

// Locate finds out where the batches of a workflow run, as far as the server knows: a workflow cannot
// see that of itself.
func (a *Activities) Locate(ctx context.Context, in wire.LocateInput) (wire.LocateResult, error) {
	var result wire.LocateResult
	asked := in.Processes
	if a.opts.Places != nil {
		places, err := a.opts.Places(ctx, in.Workflow, in.Run)
		if err != nil {
			return wire.LocateResult{}, err
		}
		result.Places = places
	}
	if a.opts.Takers != nil && len(in.Silent) > 0 {
		if takers, err := a.opts.Takers(ctx, in.Workflow, in.Run, in.Silent); err == nil { // or else they are named without a place
			result.Places = append(result.Places, takers...)
		}
	}
	for _, p := range result.Places {
		asked = append(asked, p.Process)
	}
	for _, process := range asked {
		if ended, known := procs.Ended(process); known && ended && !slices.Contains(result.Ended, process) {
			result.Ended = append(result.Ended, process)
		}
	}
	return result, nil
}
