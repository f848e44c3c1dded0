package activities

import (
	"context"
	"slices"

	"github.com/stint-run/stint/internal/procs"
	"github.com/stint-run/stint/internal/wire"
)

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
