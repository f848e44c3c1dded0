package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
)

// Start a job for the workers of a pool and wait for its end.
func ExampleClient_Start() {
	ctx := context.Background()
	temporal, err := sdkclient.Dial(envconfig.MustLoadDefaultClientOptions()) // TEMPORAL_ADDRESS and the like
	if err != nil {
		log.Fatal(err)
	}
	defer temporal.Close()

	run, err := jobs.NewClient(temporal, nil).Start(ctx, job.Spec{
		Name:   "nightly",
		Pool:   "thumbnails",
		Files:  &job.Files{Input: []string{"s3://photos/new/*.jsonl"}},
		Output: "s3://photos/thumbs/",
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	report, err := run.Wait(ctx)
	var failed *jobs.FailedError
	switch {
	case errors.As(err, &failed):
		log.Fatalf("%v, after %d items", failed, failed.Report.Done())
	case err != nil:
		log.Fatal(err)
	}
	fmt.Printf("%s: %d ok, %d failed, results in %s\n", report.State, report.OK, report.Failed, report.Output.Location)
}

// Start a job, or continue the one of that name: it may run, or have stopped or failed.
func ExampleClient_Start_again() {
	startOrContinue := func(ctx context.Context, c *jobs.Client, spec job.Spec) (*jobs.Run, error) {
		report, err := c.Get(spec.Name).Report(ctx)
		var none *jobs.NotFoundError
		switch {
		case errors.As(err, &none):
			return c.Start(ctx, spec, nil)
		case err != nil:
			return nil, err
		case !report.State.Final():
			return c.Get(spec.Name), nil
		case report.State == job.Completed, len(report.Manifests) == 0: // nothing to continue from
			return c.Start(ctx, spec, &jobs.StartOptions{Fresh: true})
		}
		return c.Start(ctx, spec, &jobs.StartOptions{Resume: report.Manifests})
	}
	_ = startOrContinue
}

// What is left out has a default; what cannot be is named.
func ExampleSpec_Validate() {
	spec := job.Spec{
		Name: "nightly", Pool: "thumbnails", Files: &job.Files{Input: []string{"new.jsonl"}}, Output: "thumbs.jsonl",
		Window: 50_000, Expiry: time.Millisecond,
	}.WithDefaults()
	fmt.Println(spec.Errors, spec.Attempts)
	fmt.Println(spec.Validate())
	// Output:
	// thumbs.jsonl.errors.jsonl 3
	// Window 50000: use 1 to 10000, or 0 for an automatic one
	// Expiry 1ms: use 1s to 24h0m0s
}

// Have a job started every night, by the server.
func ExampleClient_Schedule() {
	ctx := context.Background()
	temporal, err := sdkclient.Dial(envconfig.MustLoadDefaultClientOptions())
	if err != nil {
		log.Fatal(err)
	}
	defer temporal.Close()

	c := jobs.NewClient(temporal, nil)
	err = c.Schedule(ctx, job.Spec{
		Name:   "nightly",
		Pool:   "thumbnails",
		Files:  &job.Files{Input: []string{"s3://photos/new/*.jsonl"}, NewFiles: true}, // those that no earlier tick has completed
		Output: "s3://photos/{date:2006/01}/thumbs-{date}.jsonl",
	}, job.ScheduleOptions{Cron: []string{"0 3 * * *"}, TimeZone: "Europe/Berlin"})
	var exists *jobs.ScheduleExistsError
	if err != nil && !errors.As(err, &exists) {
		log.Fatal(err)
	}
	nightly, err := c.GetSchedule(ctx, "nightly")
	if err != nil {
		log.Fatal(err)
	}
	if last := nightly.Last; last != nil {
		fmt.Printf("%s: %s\n", last.Name, last.State) // nightly-2026-11-21T02:00:00Z: completed
	}
}
