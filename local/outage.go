package local

import (
	"context"
	"errors"
	"time"

	"github.com/stint-run/stint/internal/backoff"
	"github.com/stint-run/stint/internal/store"
)

const (
	// outageLimit is how long this process itself waits for a store, or the host of an input, that cannot be used for
	// now. A job waits longer: see [job.Outage].
	outageLimit = time.Minute
	// outageDelay is the first wait between two tries; it doubles up to maxOutageDelay.
	outageDelay    = time.Second
	maxOutageDelay = 10 * time.Second
)

// throughOutage calls look, which reads from a store or looks at inputs, until that is no longer kept from it by a fault
// that may pass, or outageLimit is over. It returns the error of the last try.
func (r *run) throughOutage(ctx context.Context, look func() error) error {
	began := time.Now()
	ended := r.ctx.Done() // by the first request to end
	for tries := 1; ; tries++ {
		err := look()
		_, ofStore := errors.AsType[*store.OpError](err)
		switch {
		case !ofStore || store.Permanent(err):
			return err
		case r.ctx.Err() != nil:
			return context.Cause(r.ctx)
		case ctx.Err() != nil:
			return err
		}
		wait := backoff.Delay(outageDelay, tries, maxOutageDelay)
		if time.Since(began)+wait > outageLimit {
			return err
		}
		if tries == 1 {
			r.note("waiting up to %v: %v", outageLimit, err)
		}
		if !backoff.Wait(wait, ended) {
			return context.Cause(r.ctx)
		}
	}
}
