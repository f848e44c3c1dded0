package activities

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/outputs"
	"github.com/stint-run/stint/internal/wire"
)

// WriteReport writes a job's final report as JSON, replacing what is there. If a newer run has claimed the store, it
// writes nothing: that run reports for itself.
func (a *Activities) WriteReport(ctx context.Context, in wire.ReportInput) error {
	data, err := json.MarshalIndent(in.Report, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if data, err = outputs.Encoded(in.Location, append(data, '\n')); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	_, err = carryOut(ctx, a.opts.Patience, func(ctx context.Context) (none struct{}, err error) {
		return none, outputs.PublishReport(ctx, a.opts.Access, in.Ref, in.Location, data)
	})
	return err
}

// WriteFailures writes the error records of all items that have failed so far to the job's errors file, replacing what
// is there, and returns where that is. It is empty if there are no records. Finish replaces the file once the job has
// been resumed and completes.
func (a *Activities) WriteFailures(ctx context.Context, in wire.FailuresInput) (location string, err error) {
	return carryOut(ctx, a.opts.Patience, func(ctx context.Context) (string, error) {
		p, err := outputs.NewPublication(ctx, a.opts.Access, in.Ref, in.Spec)
		if err != nil {
			return "", err
		}
		p.Links = ledger.Along(p.Dir, in.Manifests)
		return p.PublishErrors(ctx)
	})
}
