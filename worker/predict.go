package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/frames"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/timers"
)

// PredictOptions say how a job is predicted.
type PredictOptions struct {
	// Items is how many of the job's items are tried, drawn from all of them: 1 or more; where there
	// are fewer, all.
	Items int
	// Workers is how many workers like this one shall run the job. Default 1.
	Workers int
	// Seed decides which items are drawn. Default 0.
	Seed uint64
}

// Predict tells what a job over spec's inputs would come to on workers with this handler and these
// options: it counts the items, has the handler work on some of them in as many slots as the worker
// has, and goes on from what that took. Neither Temporal nor a store is needed. The results are
// thrown away, but what the handler does to the world is done. Options.Isolate is not used. Of spec only what is about items,
// batches and calls is used; it must be valid.
func Predict(ctx context.Context, h Handler, o Options, spec job.Spec, p PredictOptions) (activities.Prediction, error) {
	var none activities.Prediction
	if p.Items < 1 {
		return none, fmt.Errorf("a sample of %d items: use 1 or more", p.Items)
	}
	if err := h.Check(o); err != nil {
		return none, err
	}
	o = o.withDefaults()
	watchdog, err := timers.New(timers.Options{MaxScope: frames.MaxScope, MaxTimers: frames.MaxTimers})
	if err != nil {
		return none, err
	}
	name := workerName()
	roster := newRoster(name, o, newPermits(o.Slots*o.Concurrency), logEvents(o.Logger, func(SlotEvent) {}))
	handler, service, err := h.open(surroundings{
		options: o, worker: name, log: o.Logger, roster: roster, info: o.slotInfo(name), watchdog: watchdog, observe: roster.observe,
		measure:     func(Measurement) {},
		requestStop: func(context.Context, string, job.Stop) error { return errNoJob },
	})
	if err != nil {
		return none, err
	}
	access := &store.Access{Allow: o.Allow}
	defer access.Close()
	acts := activities.New(activities.Options{Access: access, Handler: handler, Stdin: o.Stdin, Slots: roster, Watchdog: watchdog})
	defer acts.Close()
	if service != nil {
		defer service.close()
	}
	return predict(ctx, &predicting{acts, handler, service, watchdog, roster}, o, spec, p)
}

// errNoJob is what a handler is told that asks for its job's stop.
var errNoJob = errors.New("this is a sample of a job's items: there is no job to stop")

// predicting is what a prediction needs of a worker.
type predicting struct {
	acts     *activities.Activities
	handler  activities.Handler
	service  service
	watchdog *timers.Watchdog
	roster   *roster
}

func predict(ctx context.Context, w *predicting, o Options, spec job.Spec, p PredictOptions) (activities.Prediction, error) {
	survey, err := w.acts.Survey(ctx, spec)
	if err != nil {
		return activities.Prediction{}, err
	}
	w.watchdog.Start()
	defer w.watchdog.Stop()
	began := time.Now()
	if w.service != nil {
		if err := w.service.start(ctx); err != nil {
			return activities.Prediction{}, err
		}
	}
	setup := activities.Setup{Slots: o.Slots * o.Concurrency, Workers: max(1, p.Workers), Ready: time.Since(began), Seed: p.Seed}
	sample, err := w.acts.Try(ctx, survey, spec, activities.SampleOptions{Items: p.Items, Parallel: setup.Slots, Seed: p.Seed})
	if errors.Is(err, activities.ErrNoSlot) {
		err = w.roster.lastOut()
	}
	if err != nil {
		return activities.Prediction{}, err
	}
	return activities.Predict(survey, sample, w.handler, spec, setup), nil
}

// lastOut is why a slot is out.
func (r *roster) lastOut() error {
	for _, s := range r.slots {
		if err := s.isOut(); err != nil {
			return fmt.Errorf("trying a sample: %w", err)
		}
	}
	return fmt.Errorf("trying a sample: %w", activities.ErrNoSlot)
}
