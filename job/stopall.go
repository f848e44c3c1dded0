package job

import (
	"context"
	"errors"
	"fmt"
)

// StopAll asks every running job of a pool, or with an empty name of all pools, for a coordinated
// stop. Each is told before it returns, so none waits for another; it returns those that were told.
// That there is no such job is no error.
func (c *Client) StopAll(ctx context.Context, pool string, stop Stop) ([]*Run, error) {
	if err := stop.validate(); err != nil {
		return nil, err
	}
	jobs, err := c.running(ctx)
	if err != nil {
		return nil, err
	}
	var told []*Run
	var errs []error
	for _, j := range jobs {
		if pool != "" && j.Pool != pool {
			continue
		}
		run := &Run{client: c, name: j.Name}
		var ended *EndedError
		switch err := run.Stop(ctx, stop); {
		case err == nil:
			told = append(told, run)
		case !errors.As(err, &ended): // it has just ended by itself
			errs = append(errs, err)
		}
	}
	return told, errors.Join(errs...)
}

// running lists all jobs that run.
func (c *Client) running(ctx context.Context) ([]Listed, error) {
	return c.list(ctx, fmt.Sprintf("WorkflowType = '%s' AND TaskQueue = '%s' AND ExecutionStatus = 'Running'", WorkflowJob, WorkflowQueue), int(^uint(0)>>1))
}
