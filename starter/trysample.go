package starter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/embedded"
	"github.com/stint-run/stint/internal/predict"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/local"
	"github.com/stint-run/stint/worker"
)

// trial is a sample of a job's items that is tried as a small job, with everything embedded and in memory.
type trial struct {
	ctx      context.Context
	giveUp   context.CancelCauseFunc
	pools    map[string]local.Pool // of a job without stages: its only one
	samplers map[string]*predict.Sampler

	drawn   *predict.Drawn
	report  job.Report
	results counter
}

// counter counts the bytes that are written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// trialDrain is how long a call may take to end once the trial is interrupted.
const trialDrain = 200 * time.Millisecond

// trySample tries a sample of the job's items, with as many slots as the job would have here.
func (o *planOptions) trySample(ctx context.Context, p *Program, spec job.Spec) (t *trial, err error) {
	t = &trial{}
	if t.pools, err = o.trialPools(p, spec); err != nil {
		return nil, err
	}
	t.ctx, t.giveUp = context.WithCancelCause(ctx)
	defer t.giveUp(nil)
	parallel, err := t.sample(p, predict.Setup{Workers: o.workers, Seed: o.seed})
	if err != nil {
		return nil, err
	}
	var access store.Access
	defer access.Close()
	survey, err := predict.TakeSurvey(t.ctx, &access, spec, nil)
	if err != nil {
		return nil, err
	}
	t.drawn, err = predict.Draw(t.ctx, &access, survey, spec, predict.SampleOptions{
		Items: o.sample, Parallel: parallel, Seed: o.seed,
	})
	if err != nil {
		return nil, err
	}
	return t, errors.Join(t.run(), t.drawn.Close())
}

// trialPools are the pools that the job's stages name.
func (o *planOptions) trialPools(p *Program, spec job.Spec) (map[string]local.Pool, error) {
	if len(spec.Stages) == 0 && o.job.pools.node == nil {
		handler, err := o.worker.handler(p)
		return map[string]local.Pool{spec.Pool: {Handler: handler, Options: o.worker.options}}, err
	}
	all, err := o.job.localPools(p, &o.worker, spec)
	pools := map[string]local.Pool{}
	for name, pool := range all {
		if slices.Contains(spec.Pools(), name) { // others are for hooks
			pools[name] = pool
		}
	}
	return pools, err
}

// sample has the workers of the pools try the sample, and returns how many calls the largest one makes at once. They
// have nothing that is about jobs which run for long.
func (t *trial) sample(p *Program, setup predict.Setup) (parallel int, err error) {
	t.samplers = map[string]*predict.Sampler{}
	for name, pool := range t.pools {
		w := &pool.Options
		if w.AutoConcurrency {
			return 0, usageError("trying a sample with an automatic concurrency: " +
				"a sample is too small to find one, so use a number")
		}
		w.Logger = newLogger(p.Stderr, false)
		w.Rate, w.Hooks, w.Metrics, w.MeterProvider, w.Sinks = 0, nil, "", nil, nil
		w.Drain = trialDrain
		setup.Concurrency = max(1, w.Concurrency)
		setup.Slots = cmp.Or(w.Slots, runtime.NumCPU()) * setup.Concurrency
		parallel = max(parallel, setup.Slots)
		t.samplers[name] = &predict.Sampler{Setup: setup, GiveUp: t.giveUp}
		embedded.Sample(w, t.samplers[name])
		t.pools[name] = pool
	}
	return parallel, nil
}

// run runs the small job to its end.
func (t *trial) run() (err error) {
	small := t.drawn.Job
	options := local.Options{Results: &t.results, Abort: t.ctx.Done()}
	var handler worker.Handler
	if len(small.Stages) > 0 {
		options.Pools = t.pools
	} else {
		options.Worker, handler = t.pools[small.Pool].Options, t.pools[small.Pool].Handler
	}
	t.report, err = local.Run(context.WithoutCancel(t.ctx), small, handler, options)
	switch {
	case t.ctx.Err() != nil:
		return context.Cause(t.ctx)
	case t.report.Error != nil && t.report.Error.Type == job.ErrorHopeless:
		return nil // which is what the sample shows
	case err != nil:
		return fmt.Errorf("trying a sample: %w", err)
	case t.report.State != job.Completed:
		return fmt.Errorf("trying a sample: the handler has stopped it: %s", t.report.Reason)
	}
	return nil
}
