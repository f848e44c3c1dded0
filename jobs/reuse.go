package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-run/stint/job"
)

// withReuse fills in where the results lie that a job takes: with the latest run of the job that it names, or of its
// own name.
func (c *Client) withReuse(ctx context.Context, s job.Spec) (job.Spec, error) {
	if s.Reuse == nil || s.Reuse.From != "" {
		return s, nil
	}
	r, of := *s.Reuse, s.Reuse.Of
	if of == "" {
		of = s.Name
	}
	other, err := c.Spec(ctx, of)
	_, missing := errors.AsType[*NotFoundError](err)
	switch {
	case missing && r.Of == "":
		return s, nil
	case err != nil:
		return s, fmt.Errorf("looking for results to use again: %w", err)
	case other.Reuse != nil:
		r.From = other.WithDefaults().Reuse.Store
	case r.Of != "":
		return s, fmt.Errorf("job %s has kept no results to use again: run it with --reuse first, which keeps those of that run", r.Of)
	}
	s.Reuse = &r
	return s, nil
}
