package activities

import (
	"context"

	"github.com/stint-run/stint/internal/protocol"
)

// LocateInput names a workflow, a job or a leg, that has given batches out.
type LocateInput struct {
	Workflow string `json:"workflow"`
	Run      string `json:"run"`
}

// LocateResult says where they run.
type LocateResult struct {
	Places []protocol.ActivityPlace `json:"places,omitempty"`
}

// Locate finds out where the batches of a workflow run, as far as the server knows: a workflow cannot
// see that of itself.
func (a *Activities) Locate(ctx context.Context, in LocateInput) (LocateResult, error) {
	if a.opts.Places == nil {
		return LocateResult{}, nil
	}
	places, err := a.opts.Places(ctx, in.Workflow, in.Run)
	return LocateResult{Places: places}, err
}
