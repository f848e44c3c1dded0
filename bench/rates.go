package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
)

const (
	rateWorkers = 2
	// rateOff is by how much the average rate may differ from the limit.
	rateOff = 0.02
)

// rateRows compare how requests come with a limit of them with how they should.
func (b *bench) rateRows() []row {
	return []row{
		b.rateRow("http, rpm 6000, two workers", 6000, b.items(6000), 1),
		b.rateRow("http, rpm 6 for each of 400 values", 6, b.items(2800), 400),
	}
}

// rateRow has so many requests made, of items with so many values, each of which may have so many requests a minute.
func (b *bench) rateRow(name string, aMinute, items, values int) row {
	items = max(2*values, items)
	apart := time.Minute / time.Duration(aMinute) // the requests of a value
	ideal := apart * time.Duration(max(items-1, values)/values)
	figure := func() (time.Duration, error) { return b.figure("rated") }
	return row{
		name: name, limit: fmt.Sprintf("%.2f to %.2f", 1-rateOff, 1+rateOff), before: b.fresh, once: true, ideal: ideal,
		stint: func() *exec.Cmd {
			return b.role("rated", b.valued(items, values), strconv.Itoa(aMinute), strconv.Itoa(values))
		},
		figure: figure,
		note:   func() string { return b.read("rated", ".note") },
		failure: func() string {
			if took, err := figure(); err == nil && took.Seconds() < (1-rateOff)*ideal.Seconds() {
				return fmt.Sprintf("%v is shorter than the limit allows", brief(took))
			}
			return ""
		},
	}
}

// valued makes, once, a file of items with so many values in turn.
func (b *bench) valued(items, values int) string {
	path := filepath.Join(b.dir, fmt.Sprintf("valued-%d-%d.jsonl", items, values))
	b.make(path, fmt.Sprintf(`seq 0 %d | awk '{ printf "{\"value\":%%d}\n", $1 %% %d }' > %s`, items-1, values, path))
	return path
}

// rated runs a job with a limit of requests over two workers. The figure is the time from the first to the last request.
// args are an input, an output, a directory, the requests a minute of a value, and how many values there are.
func rated(args []string) error {
	aMinute, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	came := &arrivals{}
	server := httptest.NewServer(came)
	defer server.Close()
	spec := job.Spec{Files: &job.Files{Input: []string{args[0]}}, Name: "rated", Pool: "bench", Output: args[1], RequestRate: job.Rate(aMinute) * 1000}
	if args[4] != "1" {
		spec.LimitBy = "value"
	}
	if err := runRated(args[2], server.URL, spec); err != nil {
		return err
	}
	return came.report(args[1])
}

// runRated runs a job over workers that send its items to a server.
func runRated(dir, url string, spec job.Spec) error {
	server, err := startProcess("server", filepath.Join(dir, "temporal"), "true")
	if err != nil {
		return err
	}
	defer server.end()
	address, err := server.line()
	if err != nil {
		return fmt.Errorf("reading the server's address: %w", err)
	}
	for range rateWorkers {
		w, err := startProcess("http-worker", address, url)
		if err != nil {
			return err
		}
		defer w.end()
	}
	ctx := context.Background()
	c, err := dial(ctx, address)
	if err != nil {
		return err
	}
	defer c.Close()
	r, err := jobs.NewClient(c, nil).Start(ctx, spec, nil)
	if err != nil {
		return err
	}
	report, err := r.Wait(ctx)
	if err == nil && report.Failed > 0 {
		err = errors.New("items have failed")
	}
	return err
}

// httpWorker returns a worker that sends items to a URL.
func httpWorker(address, url string) error {
	return runWorker(address, worker.HTTP(worker.HTTPOptions{URL: url, AllowOrigins: []string{url}}), worker.Options{Slots: 1, Concurrency: 64})
}

// arrivals is a server that notes when requests come.
type arrivals struct {
	mu  sync.Mutex
	all []time.Time
}

func (a *arrivals) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.all = append(a.all, time.Now())
	a.mu.Unlock()
	_, _ = io.Copy(io.Discard, r.Body)
	time.Sleep(httpTakes)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"ok":true}`)
}

// report reports how long it was from the first to the last request, and how many came in a second.
func (a *arrivals) report(output string) error {
	if len(a.all) == 0 {
		return errors.New("no request has come")
	}
	first := a.all[0]
	took := a.all[len(a.all)-1].Sub(first)
	seconds := make([]int, 1+int(took/time.Second))
	for _, at := range a.all {
		seconds[at.Sub(first)/time.Second]++
	}
	whole := seconds[:max(1, len(seconds)-1)]
	note := fmt.Sprintf("%d requests, %.1f a second; %d to %d in each second", len(a.all), float64(len(a.all)-1)/took.Seconds(), slices.Min(whole), slices.Max(whole))
	return report(output, took, note)
}
