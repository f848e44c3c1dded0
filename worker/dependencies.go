package worker

import (
	"context"
	"log/slog"

	"github.com/stint-run/stint/internal/trap"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/timers"
)

// dependencies are what a handler gets from its worker.
type dependencies struct {
	options     Options
	json        JSON // of the Go functions
	worker      string
	log         *slog.Logger
	roster      *roster
	info        func(slot, incarnation int) SlotInfo
	watchdog    *timers.Watchdog
	requestStop func(ctx context.Context, job string, stop job.Stop) error
	observe     func(SlotEvent)
	measure     func(Measurement)
	// defect ends the worker with an error, because one of its goroutines has panicked.
	defect func(error)
}

// run runs fn, in a goroutine of the worker. If fn panics the worker ends, with an error that says so,
// and cleanup, which may be nil, is called.
func (s dependencies) run(where string, fn, cleanup func()) {
	err := trap.Run(where, fn)
	if err == nil {
		return
	}
	s.defect(err)
	if cleanup != nil {
		cleanup()
	}
}

// service is the part of a handler that lives as long as its worker. It may be nil.
type service interface {
	// start is called once before the first call. If it returns an error, nothing of it is left.
	start(ctx context.Context) error
	// Close ends what it holds. It is idempotent, and may be called without a start.
	Close()
}
