package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stint-run/stint/internal/test/testserver"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	sdkclient "go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
)

// office is where the examples' jobs run: a server and workers, all in this process.
type office struct {
	dir      string
	jobs     *jobs.Client
	temporal sdkclient.Client
	closing  []func()
}

func openOffice() *office {
	dir, err := os.MkdirTemp("", "stint-example-")
	check(err)
	server, err := testserver.Start(context.Background())
	check(err)
	temporal, err := sdkclient.Dial(sdkclient.Options{HostPort: server.Address(), Logger: sdklog.NewStructuredLogger(silent)})
	check(err)
	return &office{dir: dir, jobs: jobs.NewClient(temporal, nil), temporal: temporal, closing: []func(){
		func() { check(os.RemoveAll(dir)) }, server.Stop, temporal.Close,
	}}
}

var silent = slog.New(slog.DiscardHandler)

func (o *office) close() {
	for _, end := range slices.Backward(o.closing) {
		end()
	}
}

// serve runs a worker of the pool that has one batch in hand at a time.
func (o *office) serve(pool string, handle func(context.Context, string) (string, error)) {
	w, err := worker.New(jobs.NewClient(o.temporal, nil), pool, worker.Each(handle), worker.Options{Slots: 1, Logger: silent})
	check(err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- w.Run(ctx) }()
	o.closing = append(o.closing, func() { cancel(); check(<-served) })
}

// file writes an input of so many lines.
func (o *office) file(name string, lines ...string) (input []string) {
	path := filepath.Join(o.dir, name)
	check(os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600))
	return []string{path}
}

// output is where a job puts its results.
func (o *office) output(name string) string { return filepath.Join(o.dir, name) }

// wait waits for a job's end, however it ends.
func wait(run *jobs.Run) job.Report {
	report, err := run.Wait(context.Background())
	if _, ok := errors.AsType[*jobs.FailedError](err); !ok {
		check(err)
	}
	return report
}

// printFile prints results.
func printFile(path string) {
	data, err := os.ReadFile(path)
	check(err)
	fmt.Print(string(data))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
