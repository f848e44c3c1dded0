package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

// Set changes settings of the running job and returns all settings that are then in force. They take
// effect within a workflow task; batches that already run keep their size and rate. A job that has
// ended returns *EndedError, and a stopping job refuses. A worker must answer; Set waits for one until
// ctx ends.
func (r *Run) Set(ctx context.Context, s job.Settings) (job.Settings, error) {
	handle, err := r.client.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: r.name, UpdateName: wire.UpdateSet, Args: []any{s}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	var now job.Settings
	if err == nil {
		err = handle.Get(ctx, &now)
	}
	var gone *serviceerror.NotFound
	var refused *temporal.ApplicationError
	switch {
	case err == nil:
		return now, nil
	case errors.As(err, &gone):
		return job.Settings{}, r.ended(ctx, nil)
	case errors.As(err, &refused):
		return job.Settings{}, fmt.Errorf("job %s: %s", r.name, refused.Message())
	}
	if Unanswered(err) || notReady(err) {
		err = &UnansweredError{Name: r.name, Err: err}
	}
	return job.Settings{}, fmt.Errorf("changing the settings of job %s: %w", r.name, err)
}
