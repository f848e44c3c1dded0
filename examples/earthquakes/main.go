// Command earthquakes finds the large airport nearest to each earthquake of a file of GeoJSON
// features, one a line. It is a whole stint program: it serves a pool with a Go function, which
// holds what it needs to know in memory, and starts a job there.
//
// It finds Temporal as every Temporal program does, through TEMPORAL_ADDRESS and its like or a
// profile of Temporal's configuration file; without any, at localhost:7233.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/worker"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"
)

// name is the job's, and its pool's.
const name = "earthquakes"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, envconfig.EnvLookupOS, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// run is the program below its process: env says where Temporal is.
func run(ctx context.Context, env envconfig.EnvLookup, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	list := flags.String("airports", filepath.Join("..", "data", "airports.csv"), "`file` with the airports, CSV")
	output := flags.String("o", "nearest.jsonl", "`file` for the results")
	fresh := flags.Bool("fresh", false, "start anew, even where an earlier job runs or has ended")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	}
	large, err := readAirports(*list)
	if err != nil {
		return err
	}
	spec, err := specOf(flags.Args(), *output)
	if err != nil {
		return err
	}
	temporal, err := dial(ctx, env)
	if err != nil {
		return err
	}
	defer temporal.Close()

	report, err := process(ctx, temporal, worker.Each(large.locate), spec, *fresh)
	if err != nil {
		return err
	}
	return tell(stdout, report)
}

// specOf describes the job. The paths are absolute, because a worker reads them.
func specOf(inputs []string, output string) (job.Spec, error) {
	if len(inputs) == 0 {
		inputs = []string{filepath.Join("..", "data", "earthquakes.jsonl")}
	}
	spec := job.Spec{Name: name, Pool: name}
	for _, input := range inputs {
		path, err := filepath.Abs(input)
		if err != nil {
			return spec, fmt.Errorf("finding %s: %w", input, err)
		}
		spec.Input = append(spec.Input, path)
	}
	var err error
	if spec.Output, err = filepath.Abs(output); err != nil {
		return spec, fmt.Errorf("finding %s: %w", output, err)
	}
	return spec, nil
}

func dial(ctx context.Context, env envconfig.EnvLookup) (sdkclient.Client, error) {
	options, err := envconfig.LoadClientOptions(envconfig.LoadClientOptionsRequest{EnvLookup: env})
	if err != nil {
		return nil, fmt.Errorf("reading Temporal's configuration: %w", err)
	}
	options.Logger = sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)) // errors come back
	temporal, err := sdkclient.DialContext(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("connecting to Temporal (is 'stint server' running?): %w", err)
	}
	return temporal, nil
}

// process serves the pool until the job has ended.
func process(ctx context.Context, temporal sdkclient.Client, h worker.Handler, spec job.Spec, fresh bool) (job.Report, error) {
	w, err := worker.New(temporal, spec.Pool, h, worker.Options{})
	if err != nil {
		return job.Report{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	served := make(chan struct{})
	go func() {
		defer close(served)
		cancel(w.Run(ctx)) // a worker that cannot serve ends the waiting, too
	}()
	defer func() {
		cancel(nil)
		<-served
	}()
	started, err := start(ctx, job.NewClient(temporal), spec, fresh)
	if err != nil {
		return job.Report{}, err
	}
	report, err := started.Wait(ctx)
	if err != nil && ctx.Err() != nil {
		return report, fmt.Errorf("no longer serving, the same command goes on: %w", context.Cause(ctx))
	}
	return report, err
}

// start starts the job, or goes on with it: an earlier process may have been killed.
func start(ctx context.Context, jobs *job.Client, spec job.Spec, fresh bool) (*job.Run, error) {
	started, err := jobs.StartWith(ctx, spec, job.StartOptions{Fresh: fresh})
	var exists *job.ExistsError
	if errors.As(err, &exists) {
		return jobs.Get(spec.Name), nil
	}
	return started, err
}

func tell(w io.Writer, r job.Report) error {
	fmt.Fprintf(w, "%s: %s, %s events ok, %s of them no earthquakes, %s failed\n",
		r.Job, r.State, job.Thousands(r.OK), job.Thousands(r.Dropped), job.Thousands(r.Failed))
	if e := r.FirstError; e != nil {
		fmt.Fprintf(w, "first failed event: %s: %s\n", job.Thousands(e.Item), e.Error.Message)
	}
	if r.Output == nil {
		return nil
	}
	_, err := fmt.Fprintf(w, "results: %s\n", r.Output.Location)
	return err
}
