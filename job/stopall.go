package job

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-run/stint/internal/protocol"
)

// StopAll requests a coordinated stop of every running job of a pool, or of all pools if the name is
// empty. It waits for none of them, and returns the jobs that it has reached. No job at all is not an
// error.
func (c *Client) StopAll(ctx context.Context, pool string, stop Stop) ([]*Run, error) {
	if err := stop.validate(); err != nil {
		return nil, err
	}
	jobs, err := c.running(ctx)
	if err != nil {
		return nil, err
	}
	var reached []*Run
	var errs []error
	for _, j := range jobs {
		if pool != "" && j.Pool != pool {
			continue
		}
		run := &Run{client: c, name: j.Name}
		var ended *EndedError
		switch err := run.Stop(ctx, stop); {
		case err == nil:
			reached = append(reached, run)
		case !errors.As(err, &ended): // it has just ended by itself
			errs = append(errs, err)
		}
	}
	return reached, errors.Join(errs...)
}

// running lists all jobs that run.
func (c *Client) running(ctx context.Context) ([]Listed, error) {
	return c.list(ctx, fmt.Sprintf("WorkflowType = '%s' AND TaskQueue = '%s' AND ExecutionStatus = 'Running'", protocol.WorkflowJob, protocol.WorkflowQueue), int(^uint(0)>>1))
}
