package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"

	"github.com/stint-run/stint/internal/outputs"
	"github.com/stint-run/stint/job"
)

// ReportInput is a job's final report and where it goes.
type ReportInput struct {
	Location string     `json:"location"` // path or bucket URL of a file
	Report   job.Report `json:"report"`
	// Perm are those of the job's inputs: see [ledger.Ref]. The report quotes an item.
	Perm fs.FileMode `json:"perm,omitempty"`
}

// WriteReport writes a job's final report as JSON, replacing what is there.
func (a *Activities) WriteReport(ctx context.Context, in ReportInput) error {
	data, err := json.MarshalIndent(in.Report, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	_, err = carryOut(ctx, a.opts.Patience, func(ctx context.Context) (none struct{}, err error) {
		dir, name, err := outputs.OpenTarget(ctx, a.opts.Access, in.Location, in.Perm)
		if err == nil {
			err = dir.Put(ctx, name, append(data, '\n'))
		}
		return none, err
	})
	return err
}
