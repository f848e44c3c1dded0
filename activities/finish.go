package activities

import (
	"context"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/outputs"
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
	if err := p.Publish(ctx, a.opts.Joiner); err != nil {
		return wire.FinishResult{}, err
	}
	// What is published is done, whatever happens now: a stop comes too late.
	if err := p.Sweep(context.WithoutCancel(ctx)); err != nil {
		return wire.FinishResult{}, err
	}
	return wire.FinishResult{Output: p.Output, Books: p.Books}, nil
}
