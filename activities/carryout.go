package activities

import (
	"context"
	"time"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/stall"
	"github.com/stint-run/stint/internal/trap"
	"github.com/stint-run/stint/job"
)

// carryOut does the work of an activity that heartbeats for as long as its process lives. The error says to workflows what follows.
func carryOut[T any](ctx context.Context, patience time.Duration, work func(context.Context) (T, error)) (T, error) {
	defer beating(ctx)()
	return patiently(ctx, patience, work)
}

// patiently does the work of an activity. It gives the work up if an operation on files takes longer than
// patience: nothing can interrupt that, so it and the work may go on, and a second execution is beside it. The error
// is one that says to workflows what follows.
func patiently[T any](ctx context.Context, patience time.Duration, work func(context.Context) (T, error)) (T, error) {
	meter := stall.NewMeter()
	ctx = stall.With(ctx, meter)
	var result T
	done := trap.Go("doing an activity", func() (err error) {
		result, err = work(ctx)
		return err
	})
	looks := time.NewTicker(max(patience/8, time.Millisecond))
	defer looks.Stop()
	for {
		select {
		case err := <-done:
			return result, ledger.Raised(err)
		case <-looks.C:
			if stuck := meter.GiveUp(patience); stuck != nil {
				var none T
				return none, ledger.StoreError(job.ErrorOutput, stuck)
			}
		}
	}
}
