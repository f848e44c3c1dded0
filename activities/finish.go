package activities

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/internal/wire"
)

// Finish checks the books, verifies every part, and publishes the output: one file joined from the
// parts, or the parts with a list of them. It can be repeated at any point, and publishes only while
// the store names its own run as the current one. At the end it removes from the store what its run
// has left there and nothing needs any more.
func (a *Activities) Finish(ctx context.Context, in wire.FinishInput) (wire.FinishResult, error) {
	return carryOut(ctx, a.opts.Patience, func(ctx context.Context) (wire.FinishResult, error) { return a.finish(ctx, in) })
}

func (a *Activities) finish(ctx context.Context, in wire.FinishInput) (wire.FinishResult, error) {
	p, err := outputs.NewPublication(ctx, a.opts.Access, in.Ref, in.Spec)
	if err != nil {
		return wire.FinishResult{}, err
	}
	p.Earlier = in.Earlier
	p.Links = ledger.Along(p.Dir, in.Manifests)
	if p.Books, err = ledger.CheckBooks(ctx, p.Dir, p.Links, in.Planned); err != nil {
		return wire.FinishResult{}, err
	}
	if p.Books.Waiting > 0 {
		accepted := p.Links
		err := p.Fill(ctx, func(ctx context.Context) ([]string, error) { return a.fill(ctx, in, p.Dir, accepted) })
		if err == nil {
			p.Books, err = ledger.CheckBooks(ctx, p.Dir, p.Links, in.Planned)
		}
		if err != nil {
			return wire.FinishResult{}, err
		}
	}
	if err := p.Publish(ctx, a.opts.Joiner); err != nil {
		return wire.FinishResult{}, err
	}
	if err := p.CompleteFiles(ctx); err != nil {
		return wire.FinishResult{}, err
	}
	// What is published is done, whatever happens now: a stop comes too late.
	ctx = context.WithoutCancel(ctx)
	gone, err := a.keepResults(ctx, in, p.Dir, p.Links, p.Books)
	if err != nil {
		return wire.FinishResult{}, err
	}
	if err := p.Sweep(ctx); err != nil {
		return wire.FinishResult{}, err
	}
	return wire.FinishResult{Output: p.Output, Books: p.Books, Gone: gone, Failures: p.Failures, Manifests: p.Filled}, nil
}

// Commit writes a manifest. The manifest counts only when its result has been accepted, so a
// repetition leaves at most an object that nothing names.
func (a *Activities) Commit(ctx context.Context, in wire.CommitInput) (wire.CommitResult, error) {
	return carryOut(ctx, a.opts.Patience, func(ctx context.Context) (wire.CommitResult, error) {
		dir, err := ledger.OpenStore(ctx, in.Ref, a.opts.Access)
		if err != nil {
			return wire.CommitResult{}, err
		}
		key, err := ledger.WriteManifest(ctx, dir, in.Ref, in.Leg, in.Previous, in.Entries, wire.Besides{Between: in.Between})
		return wire.CommitResult{Manifest: key}, err
	})
}

// WriteReport writes a job's final report as JSON, replacing what is there. If a newer run has claimed the store, it
// writes nothing: that run reports for itself.
func (a *Activities) WriteReport(ctx context.Context, in wire.ReportInput) error {
	data, err := json.MarshalIndent(in.Report.WithSamples(), "", "  ")
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
// is there. Finish replaces the file once the job has
// been resumed and completes.
func (a *Activities) WriteFailures(ctx context.Context, in wire.FailuresInput) (wire.FailuresResult, error) {
	return carryOut(ctx, a.opts.Patience, func(ctx context.Context) (wire.FailuresResult, error) {
		p, err := outputs.NewPublication(ctx, a.opts.Access, in.Ref, in.Spec)
		if err != nil {
			return wire.FailuresResult{}, err
		}
		p.Links = ledger.Along(p.Dir, in.Manifests)
		location, err := p.PublishErrors(ctx)
		return wire.FailuresResult{Location: location, Failures: p.Failures}, err
	})
}
