package worker

import (
	"context"
	"log/slog"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/timers"
)

// surroundings are what a handler has from its worker.
type surroundings struct {
	options     Options
	worker      string
	log         *slog.Logger
	roster      *roster
	info        func(slot, incarnation int) SlotInfo
	watchdog    *timers.Watchdog
	requestStop func(ctx context.Context, job string, stop job.Stop) error
	observe     func(SlotEvent)
	measure     func(Measurement)
}

// service is the part of a handler that lives as long as its worker. It may be nil.
type service interface {
	// start is called once before the first call. With an error nothing is left of it.
	start(ctx context.Context) error
	// close ends what it holds. It is idempotent, and may be called without a start.
	close()
}
