package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
)

// serverRows are for a server that runs already; none without one.
func (b *bench) serverRows() []row {
	if b.server == "" {
		return nil
	}
	return []row{b.serverRow(), b.scalingRow()}
}

// serverRow compares batches with activities of a bare workflow on a server that runs already: both have as many
// pollers as there are processors, and batches do nothing but what stint does for each.
func (b *bench) serverRow() row {
	n := b.items(2000)
	return row{
		name: "empty handler, batches of 1, -server", limit: "≤ 1.11", before: b.fresh,
		stint: func() *exec.Cmd { return b.role("stint-server", b.lines(n), b.server) },
		peer:  func() *exec.Cmd { return b.role("temporal-server", strconv.Itoa(n), b.server) },
		note: func() string {
			return fmt.Sprintf("%d batches; the ratio is one of times: 1.11 is 0.9 of the bare workflow's batches a second", n)
		},
	}
}

// stintOnServer runs a job whose batches have one item each.
func stintOnServer(input, output, state, address string) error {
	ctx := context.Background()
	c, err := dial(ctx, address)
	if err != nil {
		return err
	}
	defer c.Close()
	name := fmt.Sprint("bench-", os.Getpid()) // the server keeps what others have left
	client := jobs.NewClient(c, nil)
	w, err := worker.New(client, name, worker.Each(upper), worker.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- w.Run(working) }()
	run, err := client.Start(ctx, job.Spec{Name: name, Pool: name, BatchItems: 1, Output: output, Store: state + "/store",
		Files: &job.Files{Input: []string{input}}}, nil)
	if err == nil {
		_, err = run.Wait(ctx)
	}
	stop()
	if workErr := <-worked; err == nil {
		err = workErr
	}
	return err
}

// bareOnServer runs a workflow with as many empty activities.
func bareOnServer(count, address string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	c, err := dial(ctx, address)
	if err != nil {
		return err
	}
	defer c.Close()
	return runBare(ctx, c, n, runtime.NumCPU())
}
