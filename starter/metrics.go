package starter

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/run/meters"
	"github.com/stint-run/stint/internal/run/traces"
	"github.com/stint-run/stint/internal/temporal/embedded"
	"github.com/stint-run/stint/internal/web/endpoint"
	"github.com/stint-run/stint/internal/web/jobmetrics"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	"go.temporal.io/sdk/contrib/opentelemetry"
)

// exposeSDK has the endpoint of a worker's --metrics show what Temporal's SDK measures, too. It is called before the
// server is dialled.
func (c *connection) exposeSDK(p *Program, w *worker.Options) error {
	log := newLogger(p.Stderr, true)
	provider, handler, err := meters.NewPrometheus(log)
	if err != nil {
		return err
	}
	embedded.Expose(w, provider, handler)
	c.metrics = opentelemetry.NewMetricsHandler(opentelemetry.MetricsHandlerOptions{
		Meter: provider.Meter("temporal-sdk-go"), UseMonotonicCounters: true,
		OnError: func(err error) { log.Warn("metrics of Temporal's SDK", "error", err) },
	})
	return nil
}

// traced has workers make spans, if the environment asks for that (OTEL_…). The last ones are sent by what it returns.
func (p *Program) traced(ctx context.Context, workers ...*worker.Options) (end func(), err error) {
	tracer, err := traces.FromEnvironment(ctx, p.lookup)
	if err != nil {
		return nil, usageError("%w", err)
	}
	if tracer == nil {
		return func() {}, nil
	}
	for _, w := range workers {
		embedded.Trace(w, tracer)
	}
	return func() {
		if err := tracer.Close(); err != nil {
			fmt.Fprintf(p.Stderr, "traces: %v\n", err)
		}
	}, nil
}

// jobMetrics are the flags of 'watch' without a job: the numbers of all jobs, for Prometheus.
type jobMetrics struct {
	patience serverPatience
	listen   string
	every    time.Duration
	most     int
}

func (o *jobMetrics) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.listen, "metrics", "", "instead of a JOB, show the numbers of all jobs to Prometheus at `ADDR`, HOST:PORT, or PORT on this machine only (0: a free one)")
	fs.DurationVar(&o.every, "every", 30*time.Second, "with --metrics, how often jobs are asked")
	fs.IntVar(&o.most, "most", 100, "with --metrics, how many jobs are asked, the latest ones")
	o.patience.addFlags(fs)
}

// check refuses what does not go with --metrics, or needs it.
func (o *jobMetrics) check(fs *pflag.FlagSet, args []string) error {
	given := fs.Changed("metrics")
	for name, with := range map[string]bool{"every": true, "most": true, "wait-for-server": true, "json": false, "timeout": false} {
		if fs.Changed(name) && given != with {
			return usageError("--%s: it is %s --metrics: leave it out", name, map[bool]string{true: "for", false: "not for"}[with])
		}
	}
	switch {
	case given && len(args) > 0:
		return usageError("--metrics: it is about all jobs: leave out %s", args[0])
	case given && o.every < time.Second:
		return usageError("--every %v: use a second or more", o.every)
	case given && (o.most < 1 || o.most > maxAsked):
		return usageError("--most %d: use 1 to %d", o.most, maxAsked)
	}
	return nil
}

// maxAsked bounds --most.
const maxAsked = 10_000

func (o *jobMetrics) run(ctx context.Context, p *Program, c *connection) error {
	address, err := endpoint.Address("--metrics", o.listen)
	if err != nil {
		return usageError("%w", err)
	}
	return o.patience.withServer(ctx, p, c, false, func(client *jobs.Client) error {
		return o.serve(ctx, p, client, address)
	})
}

// serve shows the jobs of the client until a request to end.
func (o *jobMetrics) serve(ctx context.Context, p *Program, client *jobs.Client, address string) error {
	log := newLogger(p.Stderr, true)
	exporter, err := jobmetrics.New(jobmetrics.Of(client), jobmetrics.Options{Every: o.every, Most: o.most, Log: log})
	if err != nil {
		return err
	}
	listening, err := endpoint.Listen(address, exporter.Routes(), log)
	if err != nil {
		return err
	}
	defer listening.Close()
	ctx, end := p.untilSignal(ctx)
	defer end()
	broken := make(chan error, 1)
	listening.Serve(func(err error) { broken <- err })
	asking, enough := context.WithCancel(ctx)
	asked := trap.Go("asking for jobs", func() error { exporter.Run(asking); return nil })
	fmt.Fprintf(p.Stderr, metricsNote+"\n", listening.Address())
	select {
	case <-ctx.Done():
	case err = <-broken:
	case err = <-asked:
		enough()
		return err
	}
	enough()
	<-asked
	return err
}
