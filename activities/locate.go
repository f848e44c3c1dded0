package activities

import (
	"context"
	"slices"

	"github.com/stint-run/stint/internal/procs"
	"github.com/stint-run/stint/internal/wire"
)

// LocateInput names a workflow, a job or a leg, that has given batches out.
type LocateInput struct {
	Workflow string `json:"workflow"`
	Run      string `json:"run"`
	// Processes are those of workers, as their places name them, that may have ended.
	Processes []string `json:"processes,omitempty"`
	// Silent are activities that have expired without a heartbeat: the server knows who took them.
	Silent []string `json:"silent,omitempty"`
}

// LocateResult says where they run.
type LocateResult struct {
	Places []wire.ActivityPlace `json:"places,omitempty"`
	// Ended are those of the processes, and of the places', that are known to have ended: what they had started ends with them.
	Ended []string `json:"ended,omitempty"`
}

// Locate finds out where the batches of a workflow run, as far as the server knows: a workflow cannot
// see that of itself.
func (a *Activities) Locate(ctx context.Context, in LocateInput) (LocateResult, error) {
	var result LocateResult
	asked := in.Processes
	if a.opts.Places != nil {
		places, err := a.opts.Places(ctx, in.Workflow, in.Run)
		if err != nil {
			return LocateResult{}, err
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
