package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-run/stint/internal/calls"
	"github.com/stint-run/stint/internal/frames"
	"github.com/stint-run/stint/internal/predict"
	"github.com/stint-run/stint/internal/trap"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/timers"
)

// PredictOptions say how a job is predicted.
type PredictOptions struct {
	// Items is how many of the job's items are tried, drawn from all of them: 1 or more. If there are
	// fewer, all are tried.
	Items int
	// Workers is how many workers like this one would run the job. Default 1.
	Workers int
	// Seed decides which items are drawn. Default 0.
	Seed uint64
}

// Predict predicts a job over spec's inputs on workers with this handler and these options: it counts
// the items, runs the handler on some of them in as many slots as the worker has, and extrapolates.
// It needs neither Temporal nor a store. The results are thrown away, but the handler's side effects
// happen. Options.Processes is not used. Of spec, which must be valid, it uses only the fields about
// items, batches and calls.
func Predict(ctx context.Context, h Handler, o Options, spec job.Spec, p PredictOptions) (predict.Prediction, error) {
	var none predict.Prediction
	if p.Items < 1 {
		return none, fmt.Errorf("a sample of %d items: use 1 or more", p.Items)
	}
	if err := h.Check(o); err != nil {
		return none, err
	}
	if o.Concurrency == AutoConcurrency {
		return none, errors.New("trying a sample with an automatic concurrency: a sample is too small to find one, so use a number")
	}
	o = o.withDefaults()
	watchdog, err := timers.New(timers.Options{MaxScope: frames.MaxScope, MaxTimers: frames.MaxTimers})
	if err != nil {
		return none, err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	name := workerName(o.label)
	roster := newRoster(name, o, logEvents(o.Logger, func(SlotEvent) {}))
	handler, service, err := h.open(dependencies{
		options: o, worker: name, log: o.Logger, roster: roster, info: o.slotInfo(name), watchdog: watchdog, observe: roster.observe,
		measure:     func(Measurement) {},
		requestStop: func(context.Context, string, job.Stop) error { return errNoJob },
		defect:      fail,
	})
	if err != nil {
		return none, err
	}
	access := o.access(h)
	defer access.Close()
	predictor := predict.New(predict.Options{Access: access, Handler: handler, Stdin: o.Stdin, Slots: roster, Watchdog: watchdog})
	defer predictor.Close()
	if service != nil {
		defer service.Close()
	}
	result, err := predictWith(ctx, &predicting{predictor, handler, service, watchdog, roster}, o, spec, p)
	var defect *trap.DefectError
	if errors.As(context.Cause(ctx), &defect) {
		return none, defect
	}
	return result, err
}

// errNoJob is the answer to a handler that asks for its job's stop.
var errNoJob = errors.New("this is a sample of a job's items: there is no job to stop")

// predicting are the parts of a worker that a prediction uses.
type predicting struct {
	*predict.Predictor
	handler  calls.Handler
	service  service
	watchdog *timers.Watchdog
	roster   *roster
}

func predictWith(ctx context.Context, w *predicting, o Options, spec job.Spec, p PredictOptions) (predict.Prediction, error) {
	survey, err := w.Survey(ctx, spec)
	if err != nil {
		return predict.Prediction{}, err
	}
	w.watchdog.Start()
	defer w.watchdog.Stop()
	began := time.Now()
	if w.service != nil {
		if err := w.service.start(ctx); err != nil {
			return predict.Prediction{}, err
		}
	}
	setup := predict.Setup{Slots: o.Slots * o.Concurrency, Concurrency: o.Concurrency, Workers: max(1, p.Workers), Ready: time.Since(began), Seed: p.Seed}
	sample, err := w.Try(ctx, survey, spec, predict.SampleOptions{Items: p.Items, Parallel: setup.Slots, Seed: p.Seed})
	if errors.Is(err, calls.ErrNoSlot) {
		err = w.roster.lastOut()
	}
	if err != nil {
		return predict.Prediction{}, err
	}
	return predict.Predict(survey, sample, w.handler, spec, setup), nil
}

// lastOut is why a slot is out.
func (r *roster) lastOut() error {
	for _, s := range r.slots {
		if err := s.isOut(); err != nil {
			return fmt.Errorf("trying a sample: %w", err)
		}
	}
	return fmt.Errorf("trying a sample: %w", calls.ErrNoSlot)
}
