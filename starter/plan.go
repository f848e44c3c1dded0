package starter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/predict"
	"github.com/stint-run/stint/internal/temporal/embedded"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/local"
	"github.com/stint-run/stint/worker"
)

type planOptions struct {
	job     jobOptions
	worker  workerOptions
	sample  int
	workers int
	seed    uint64
	state   string
	json    bool
}

func newPlan(p *Program) *cobra.Command {
	o := &planOptions{}
	cmd := &cobra.Command{
		Use:   "plan [INPUT…]",
		Short: "Dry run: count items, batches, events and actions; with --sample predict the time",
		Long: `Reads the inputs as a job would and counts its items and batches, the events of its histories and
the actions that Temporal Cloud would bill. Nothing is started. With automatic batches the counts
are those of a handler that is quick enough for the largest ones; a slower one gets smaller
batches, and more of them.

With --sample N the handler (--exec or --serve) is tried on N items, drawn at random from all over
the inputs, in --slots slots of this machine. The times of the calls predict the whole job: how long
it takes, with bounds that hold with a probability of 95 % as far as the sample shows (if they are not
further apart than a factor of three), and batches, events and actions at that speed. Slow-down requests
are waited out. The sample runs as a small job in memory: its results are thrown away, but the
handler's side effects happen.
The assumptions that are not measured are printed.

With --reuse it says how many items are new, have changed, had no result, are reused and are gone, with
an example of each: of the job that 'stint run' runs with the same flags, or that --name names. With
--unique it says how many items equal one before them.

A job file with stages and pools (see 'run') has the sample go through all stages: each gets a time of its
own, and the slowest is named.`,
		Example: `  stint plan 'data/*.csv'
  stint plan --sample 200 --exec 'awk -f risk.awk' data.csv --slots 8 --workers 4`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, p, args) },
	}
	fs := cmd.Flags()
	o.job.addFlags(fs, p)
	o.job.feed.hide(fs)
	fs.Lookup("pin").Hidden = true
	o.worker.addFlags(fs, p)
	fs.IntVar(&o.sample, "sample", 0, "try the handler on `N` items, and predict the job from them (default: none)")
	fs.IntVar(&o.workers, "workers", 1, "with --sample: how many machines like this one would run the job")
	fs.Uint64Var(&o.seed, "sample-seed", 1, "with --sample: another seed draws other items")
	fs.StringVar(&o.state, "state", defaultState, "with --reuse: `DIR` of the state of 'stint run'")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func (o *planOptions) run(cmd *cobra.Command, p *Program, args []string) error {
	spec, err := o.job.complete(cmd, args, p.Dir)
	if err != nil {
		return err
	}
	if err := o.job.feed.refuse(p, "there is nothing to plan: the items of a feed are not known before clients put them"); err != nil {
		return err
	}
	if len(spec.Stages) == 0 && o.worker.runsEach() {
		o.worker.eachItem(&spec)
	}
	if len(spec.Stages) == 0 {
		o.worker.moreAttempts(cmd, &spec)
		if err := o.worker.checkPrices(spec); err != nil {
			return err
		}
	}
	if spec.Reuse != nil {
		if err := o.findReuse(p, &spec); err != nil {
			return err
		}
	}
	if o.job.files.NewFiles && spec.Output == "" && spec.NewFilesList() == "" {
		return usageError("--new-files: the list of completed files lies beside the output: give the job's --output, or --new-files-list FILE")
	}
	spec.Name, spec.Store = cmp.Or(spec.Name, "plan"), "plan" // which are not used, but for the list of completed files
	if len(spec.Stages) == 0 {
		spec.Pool = "plan" // nor is this
	}
	spec = spec.WithDefaults()
	if err := spec.Validate(); err != nil {
		return usageError("%w", err)
	}
	sampling := cmd.Flags().Changed("sample")
	for _, name := range []string{"workers", "sample-seed"} {
		if cmd.Flags().Changed(name) && !sampling {
			return usageError("--%s is for a prediction: give --sample N, too", name)
		}
	}
	ctx, end := p.untilSignal(cmd.Context())
	defer end()
	switch {
	case spec.Reuse != nil && sampling:
		err = usageError("--sample and --reuse: a sample runs all its items: leave one of them out")
	case spec.Unique && sampling:
		err = usageError("--sample and --unique: a sample runs all its items: leave one of them out")
	case spec.Unique && spec.Reuse == nil && slices.Contains(spec.Inputs(), "-"):
		err = usageError("with --unique the items are read once more, and the standard input can be read only once: name a file")
	case spec.Reuse != nil:
		err = o.planReuse(ctx, p, spec)
	case sampling:
		err = o.predict(ctx, p, spec)
	default:
		err = o.survey(ctx, p, spec)
	}
	if err == nil && !sampling && spec.Reuse == nil && len(o.worker.named()) > 0 {
		fmt.Fprintln(p.Stderr, "the command was not run: --sample 100 tries it on 100 items and predicts the time")
	}
	return unlessInterrupted(ctx, err)
}

func (o *planOptions) survey(ctx context.Context, p *Program, spec job.Spec) error {
	var access store.Access
	defer access.Close()
	survey, err := predict.TakeSurvey(ctx, &access, spec, p.Stdin)
	if err != nil {
		return err
	}
	return printEither(p, o.json, survey, printSurvey)
}

// printSurvey prints what a job would have to do, with the numbers in a column.
func printSurvey(out io.Writer, s predict.Survey) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	row := func(about string, n int64, noun, what string) {
		number, things, _ := strings.Cut(text.Count(n, noun), " ")
		fmt.Fprintf(w, "%s%s\t %s%s\n", about, number, things, what)
	}
	row("", int64(s.Inputs), "input", "")
	if s.OldFiles > 0 {
		row("", int64(s.OldFiles), "file", " left out, because earlier runs have completed them")
	}
	row("", s.Items, "item", "")
	if s.Equal > 0 {
		row("", s.Equal, "item", " with the outcome of an equal one")
	}
	row("", s.Bytes, "byte", "")
	row("", s.Batches, "batch", "")
	if s.Steps > 0 {
		row("at most ", s.Batches*int64(s.Steps), "execution", fmt.Sprintf(" of batches, %d each", s.Steps))
	}
	row("", s.Legs, "leg", "")
	row("about ", s.Events, "event", " of history")
	row("about ", s.Actions, "action", " on Temporal Cloud")
	if err := w.Flush(); err != nil {
		return err
	}
	printNoticed(out, "", s.Noticed)
	return nil
}

func (o *planOptions) predict(ctx context.Context, p *Program, spec job.Spec) error {
	switch {
	case o.sample < 1:
		return usageError("--sample %d: use 1 or more, at least 100 for a useful prediction", o.sample)
	case o.workers < 1:
		return usageError("--workers %d: use 1 or more", o.workers)
	case slices.Contains(spec.Inputs(), "-"):
		return usageError("a sample is read after the items have been counted, and the standard input can be read only once: name a file")
	}
	t, err := o.trySample(ctx, p, spec)
	if err != nil {
		return err
	}
	if len(spec.Stages) > 0 {
		return printEither(p, o.json, t.drawn.PredictStages(t.report, int64(t.results), t.samplers), printPipeline)
	}
	return printEither(p, o.json, t.drawn.Predict(t.report, int64(t.results), t.samplers[spec.Pool]), printPrediction)
}

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

// trialPools returns the pools that the job's stages name.
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
