package worker_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/stint-run/stint/internal/test/testserver"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	sdkclient "go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
)

// stage runs the examples' jobs: a server and a worker of the pool "example", all in this
// process.
type stage struct {
	dir  string
	jobs *jobs.Client
	end  func()
}

// newStage serves the pool with the handler until its end is called.
func newStage(h worker.Handler, o worker.Options) *stage {
	ctx, cancel := context.WithCancel(context.Background())
	dir, err := os.MkdirTemp("", "stint-example-")
	check(err)
	silent := slog.New(slog.DiscardHandler)
	server, err := testserver.Start(ctx)
	check(err)
	temporal, err := sdkclient.Dial(sdkclient.Options{HostPort: server.Address(), Logger: sdklog.NewStructuredLogger(silent)})
	check(err)
	o.Logger = silent
	w, err := worker.New(jobs.NewClient(temporal, nil), "example", h, o)
	check(err)
	served := make(chan error, 1)
	go func() { served <- w.Run(ctx) }()
	return &stage{dir: dir, jobs: jobs.NewClient(temporal, nil), end: func() {
		cancel()
		check(<-served)
		temporal.Close()
		server.Stop()
		check(os.RemoveAll(dir))
	}}
}

// start starts a job over the lines; the spec says what else there is to it.
func (s *stage) start(spec job.Spec, input string, lines ...string) *jobs.Run {
	spec.Name, spec.Pool, spec.Attempts = "example", "example", 1
	spec.Files = &job.Files{Input: []string{filepath.Join(s.dir, input)}}
	spec.Output = filepath.Join(s.dir, "output")
	check(os.WriteFile(spec.Files.Input[0], []byte(strings.Join(lines, "\n")), 0o600))
	run, err := s.jobs.Start(context.Background(), spec, nil)
	check(err)
	return run
}

// wait waits for a job's end and prints its results and failures.
func (s *stage) wait(run *jobs.Run) job.Report {
	report, err := run.Wait(context.Background())
	if _, ok := errors.AsType[*jobs.FailedError](err); !ok {
		check(err)
	}
	if report.Output == nil {
		return report
	}
	results, err := os.ReadFile(report.Output.Location)
	check(err)
	fmt.Print(string(results))
	if report.Failed > 0 {
		printFailures(report.Output.Errors)
	}
	return report
}

// runJob runs a job with the handler over the lines, everything in this process, and prints its
// results and failures.
func runJob(h worker.Handler, input string, lines ...string) {
	runJobWith(h, worker.Options{}, input, lines...)
}

func runJobWith(h worker.Handler, o worker.Options, input string, lines ...string) {
	s := newStage(h, o)
	defer s.end()
	s.wait(s.start(job.Spec{}, input, lines...))
}

func printFailures(name string) {
	f, err := os.Open(name)
	check(err)
	defer f.Close()
	for records := bufio.NewScanner(f); records.Scan(); {
		var failure job.Failure
		check(json.Unmarshal(records.Bytes(), &failure))
		fmt.Printf("item %d failed: %s\n", failure.Item, failure.Error.Message)
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
