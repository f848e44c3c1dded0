package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
)

// scalingRow compares two workers with one, each held to a processor of its own, on a server that runs already.
func (b *bench) scalingRow() row {
	return row{
		name: "two workers of one core, -server", limit: "≥ 1.9 × one", before: b.fresh,
		stint:   func() *exec.Cmd { return b.role("two-workers", b.lines(b.items(10_000)), b.server) },
		figure:  func() (time.Duration, error) { return b.figure("two-workers") },
		note:    func() string { return b.read("two-workers", ".note") },
		failure: func() string { return b.read("two-workers", ".failure") },
	}
}

// spin is a handler that takes some milliseconds of a processor, and nothing else.
func spin(_ context.Context, r record) (record, error) {
	block := make([]byte, 1<<20)
	for range 4 {
		sum := sha256.Sum256(block)
		copy(block, sum[:])
	}
	r.Amount = int(block[0])
	return r, nil
}

// shared is a job of some workers on processors that others use, too.
type shared struct {
	took   time.Duration
	others time.Duration // of the processors: Temporal, its database, and whatever else runs on the machine
}

// room is how many of the workers the processors had room for, as a fraction: others take what they need of processors that
// no worker uses, and then of the others.
func (s shared) room(workers, processors int) float64 {
	free := float64(processors) - s.others.Seconds()/s.took.Seconds()
	return min(float64(workers), free)
}

// twoWorkers measures how much quicker two workers are than one, and writes what it has found out.
func twoWorkers(input, output, state, address string) error {
	const processors = 2
	var runs [processors]shared
	for i := range runs {
		var err error
		if runs[i], err = spinning(i+1, input, output, state, address); err != nil {
			return err
		}
	}
	one, two := runs[0], runs[1]
	times := one.took.Seconds() / two.took.Seconds()
	counted := times * 2 / (two.room(2, processors) / one.room(1, processors))
	note := fmt.Sprintf("%.2f × one (%s); others took %.0f %% of two processors, and %.0f %% beside one worker: %.2f × with their share counted",
		times, brief(one.took), 50*two.others.Seconds()/two.took.Seconds(), 50*one.others.Seconds()/one.took.Seconds(), counted)
	failure := ""
	if counted < 1.9 {
		failure = note
	}
	if err := os.WriteFile(output+".failure", []byte(failure), 0o644); err != nil {
		return err
	}
	return report(output, two.took, note)
}

// spinning runs a job with so many workers, each on a processor.
func spinning(workers int, input, output, state, address string) (shared, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	c, err := dial(ctx, address)
	if err != nil {
		return shared{}, err
	}
	defer c.Close()
	pool := fmt.Sprint("spin-", os.Getpid(), "-", workers)
	var pids []int
	for i := range workers {
		p, err := startCommand(exec.Command("taskset", "--cpu-list", strconv.Itoa(i), os.Args[0], "role", "spin-worker", address, pool))
		if err != nil {
			return shared{}, err
		}
		defer p.end()
		if _, err := p.line(); err != nil { // it has started
			return shared{}, err
		}
		pids = append(pids, p.cmd.Process.Pid)
	}
	client := jobs.NewClient(c, nil)
	began, before := time.Now(), busy(pids)
	run, err := client.Start(ctx, job.Spec{Name: pool, Pool: pool, Output: output + ".lines", Store: state + "/" + pool, BatchItems: 100,
		Files: &job.Files{Input: []string{input}}}, nil)
	if err != nil {
		return shared{}, err
	}
	if _, err := run.Wait(ctx); err != nil {
		return shared{}, err
	}
	return shared{time.Since(began), busy(pids) - before}, nil
}

// busy returns how long processors have worked for others than some processes.
func busy(except []int) time.Duration {
	total := ticks("/proc/stat", 1, 4) + ticks("/proc/stat", 6, 8) // not those idle, and not those that waited for a disk
	for _, pid := range except {
		total -= ticks(fmt.Sprintf("/proc/%d/stat", pid), 13, 15)
	}
	return time.Duration(total) * time.Second / 100 // as Linux counts
}

// ticks adds up fields from a to b, b not included, of the first line of a file of /proc.
func ticks(name string, a, b int) int64 {
	f, err := os.Open(name)
	if err != nil {
		panic(err) // this row is for Linux
	}
	defer f.Close()
	line, _ := bufio.NewReader(f).ReadString('\n')
	var sum int64
	for _, field := range strings.Fields(line)[a:b] {
		n, _ := strconv.ParseInt(field, 10, 64)
		sum += n
	}
	return sum
}

// spinWorker is a worker of one slot. It prints a line once it has started.
func spinWorker(address, pool string) error {
	fmt.Println("started")
	return runWorkerOf(address, pool, worker.Each(spin), worker.Options{Slots: 1})
}
