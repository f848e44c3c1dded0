package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-run/stint/internal/calls"
	"github.com/stint-run/stint/internal/frames"
	"github.com/stint-run/stint/internal/predict"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/internal/trap"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/timers"
)

// PredictOptions say how a job is predicted.
type PredictOptions struct {
	// Items is how many of the job's items are tried, drawn from all of them: 1 or more. If the job has fewer, all are tried.
	Items int
	// Workers is how many workers like this one would run the job. Default 1.
	Workers int
	// Seed decides which items are drawn. Default 0.
	Seed uint64
}

// Predict predicts a job over spec's inputs on workers with this handler and these options: it counts
// the items, runs the handler on some of them in as many slots as the worker has, and extrapolates.
// It needs neither Temporal nor a store. The results are discarded, but the handler's side effects happen. Options.Processes is
// not used. Of spec, which must be valid, it uses only the fields about
// items, batches and calls.
func Predict(ctx context.Context, h Handler, o Options, spec job.Spec, p PredictOptions) (predict.Prediction, error) {
	var none predict.Prediction
	if p.Items < 1 {
		return none, fmt.Errorf("a sample of %d items: use 1 or more", p.Items)
	}
	if err := checkPredict(h, o); err != nil {
		return none, err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	w, err := openPredicting(h, o, fail)
	if err != nil {
		return none, err
	}
	defer w.close()
	result, err := predictWith(ctx, w, spec, p)
	return result, orDefect(ctx, err)
}

// orDefect is the defect that has ended ctx, or err.
func orDefect(ctx context.Context, err error) error {
	if defect, ok := errors.AsType[*trap.DefectError](context.Cause(ctx)); ok {
		return defect
	}
	return err
}

// PredictStages is [Predict] for a spec with stages: the sample goes through all of them, with the handlers and options of their
// pools, by name. pools must have each pool of the spec.
func PredictStages(ctx context.Context, pools map[string]PoolHandler, spec job.Spec, p PredictOptions) (predict.Pipeline, error) {
	var none predict.Pipeline
	if p.Items < 1 {
		return none, fmt.Errorf("a sample of %d items: use 1 or more", p.Items)
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	lanes := map[string]*predict.Lane{}
	var first *predicting
	for _, name := range spec.Pools() {
		pool, ok := pools[name]
		if !ok {
			return none, fmt.Errorf("pool %s has no entry: add it to pools", name)
		}
		if err := checkPredict(pool.Handler, pool.Options); err != nil {
			return none, fmt.Errorf("pool %s: %w", name, err)
		}
		w, err := openPredicting(pool.Handler, pool.Options, fail)
		if err != nil {
			return none, fmt.Errorf("pool %s: %w", name, err)
		}
		defer w.close()
		if name == spec.Pool {
			first = w
		}
		setup, err := w.start(ctx, p)
		if err != nil {
			return none, orDefect(ctx, fmt.Errorf("pool %s: %w", name, err))
		}
		lanes[name] = &predict.Lane{Predictor: w.Predictor, Handler: w.handler, Setup: setup, Out: w.roster.lastOut}
	}
	survey, err := first.Survey(ctx, spec)
	if err != nil {
		return none, err
	}
	result, err := predict.TryPipeline(ctx, survey, spec, lanes, predict.SampleOptions{Items: p.Items, Seed: p.Seed})
	return result, orDefect(ctx, err)
}

// PoolHandler is what runs the stages of one pool: see [PredictStages].
type PoolHandler struct {
	Handler Handler
	Options Options
}

// checkPredict refuses a handler or options with which a sample cannot be tried.
func checkPredict(h Handler, o Options) error {
	if err := h.Check(o); err != nil {
		return err
	}
	if o.Concurrency == AutoConcurrency {
		return errors.New("trying a sample with an automatic concurrency: a sample is too small to find one, so use a number")
	}
	return nil
}

// errNoJob is the answer to a handler that asks for its job's stop.
var errNoJob = errors.New("this is a sample of a job's items: there is no job to stop")

// predicting are the parts of a worker that a prediction uses.
type predicting struct {
	*predict.Predictor
	options  Options
	handler  calls.Handler
	service  service
	watchdog *timers.Watchdog
	roster   *roster
	access   *store.Access
	started  bool
}

// openPredicting opens the parts for a handler. fail ends the prediction.
func openPredicting(h Handler, o Options, fail context.CancelCauseFunc) (*predicting, error) {
	o = o.withDefaults()
	watchdog, err := timers.New(timers.Options{MaxScope: frames.MaxScope, MaxTimers: frames.MaxTimers})
	if err != nil {
		return nil, err
	}
	name := workerName(o)
	roster := newRoster(name, o, logEvents(o.Logger, func(SlotEvent) {}))
	handler, service, err := h.open(dependencies{
		options: o, worker: name, log: o.Logger, roster: roster, info: o.slotInfo(name), watchdog: watchdog, observe: roster.observe,
		measure:     func(Measurement) {},
		requestStop: func(context.Context, string, job.Stop) error { return errNoJob },
		defect:      fail,
	})
	if err != nil {
		return nil, err
	}
	access := o.access(h)
	return &predicting{
		Predictor: predict.New(predict.Options{Access: access, Handler: handler, Stdin: o.Stdin, Slots: roster, Watchdog: watchdog}),
		options:   o, handler: handler, service: service, watchdog: watchdog, roster: roster, access: access,
	}, nil
}

// start starts the handler, and returns how its workers are set up.
func (w *predicting) start(ctx context.Context, p PredictOptions) (predict.Setup, error) {
	w.watchdog.Start()
	w.started = true
	began := time.Now()
	if w.service != nil {
		if err := w.service.start(ctx); err != nil {
			return predict.Setup{}, err
		}
	}
	o := w.options
	return predict.Setup{Slots: o.Slots * o.Concurrency, Concurrency: o.Concurrency, Workers: max(1, p.Workers), Ready: time.Since(began), Seed: p.Seed}, nil
}

func (w *predicting) close() {
	if w.started {
		w.watchdog.Stop()
	}
	if w.service != nil {
		w.service.Close()
	}
	w.Close()
	_ = w.access.Close() // buckets are only handles
}

func predictWith(ctx context.Context, w *predicting, spec job.Spec, p PredictOptions) (predict.Prediction, error) {
	survey, err := w.Survey(ctx, spec)
	if err != nil {
		return predict.Prediction{}, err
	}
	setup, err := w.start(ctx, p)
	if err != nil {
		return predict.Prediction{}, err
	}
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
