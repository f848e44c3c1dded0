package activities

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
)

// ReportInput is a job's final report and where it goes.
type ReportInput struct {
	Location string     `json:"location"` // path or bucket URL of a file
	Report   job.Report `json:"report"`
}

// WriteReport writes a job's final report as JSON, replacing what is there.
func (a *Activities) WriteReport(ctx context.Context, in ReportInput) error {
	data, err := json.MarshalIndent(in.Report, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	where, name, err := store.Split(in.Location)
	if err != nil {
		return permanent(job.ErrorOutput, err)
	}
	dir, err := a.opts.Access.Open(ctx, where)
	if err != nil {
		return storeError(job.ErrorOutput, err)
	}
	return storeError(job.ErrorOutput, dir.Put(ctx, name, append(data, '\n')))
}
