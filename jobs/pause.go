package jobs

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"

	"github.com/stint-run/stint/internal/wire"
)

// Pause has the running job start nothing new until [Run.Unpause], and returns once the server has recorded that: the
// job takes it in when a worker coordinates it, and its report has PausedSince then. Calls in hand end as usual, batches
// return what is left of them. It waits for as long as it has to, over restarts of workers and of the server. A stop, and
// the job's deadline, end the pause; a resumed job is not paused.
//
// A job that is paused already stays so since then, and one that is ending, or publishing its output, is not paused. A
// job that has ended returns *EndedError, an unknown name *NotFoundError.
func (r *Run) Pause(ctx context.Context) error { return r.signalPause(ctx, wire.Pause{}) }

// Unpause has a paused job go on. It returns once the server has recorded that; a job that is not paused goes on as it
// is. Errors: as of [Run.Pause].
func (r *Run) Unpause(ctx context.Context) error { return r.signalPause(ctx, wire.Pause{Over: true}) }

func (r *Run) signalPause(ctx context.Context, p wire.Pause) error {
	err := r.client.temporal.SignalWorkflow(ctx, r.name, "", wire.SignalPause, p)
	switch {
	case errors.As(err, new(*serviceerror.NotFound)):
		return r.ended(ctx, nil)
	case err != nil && p.Over:
		return fmt.Errorf("unpausing job %s: %w", r.name, err)
	case err != nil:
		return fmt.Errorf("pausing job %s: %w", r.name, err)
	}
	return nil
}
