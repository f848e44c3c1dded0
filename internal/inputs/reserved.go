package inputs

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/job"
)

// Reserved is a standard input that only one run of a job may read, which is named only after the
// worker has begun to work: until then nobody reads.
type Reserved struct {
	io.Reader

	once    sync.Once
	decided chan struct{}
	run     string // set before decided is closed
}

// Reserve returns r for one run, which For names later.
func Reserve(r io.Reader) *Reserved { return &Reserved{Reader: r, decided: make(chan struct{})} }

// For gives the input to the run with this ID (see [wire.Ref]). Only the first call counts.
func (r *Reserved) For(run string) {
	r.once.Do(func() {
		r.run = run
		close(r.decided)
	})
}

var errStdinOfAnother = errors.New("the standard input belongs to a newer run of the job")

// await waits until the input's run is named. It returns a permanent error if it is another one.
func (r *Reserved) await(ctx context.Context, run string) error {
	select {
	case <-r.decided:
	case <-ctx.Done():
		return ctx.Err()
	}
	if r.run != run {
		return ledger.Permanent(job.ErrorInput, errStdinOfAnother)
	}
	return nil
}
