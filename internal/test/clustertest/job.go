//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/job"
)

// input is what jobs read.
type input struct {
	items int
	sum   string // of what `tr a-z A-Z` makes of it, SHA-256 in hex
}

// put makes so many lines and puts them into the bucket.
func (l *lab) put(ctx context.Context, items int) error {
	name := filepath.Join(l.dir, "lines.txt")
	if err := writeLines(name, items); err != nil {
		return err
	}
	upper := exec.CommandContext(ctx, "tr", "a-z", "A-Z")
	in, err := os.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	upper.Stdin = in
	if l.input.sum, err = sumOf(upper); err != nil {
		return err
	}
	l.input.items = items
	return errors.Join(finish(l.servers.host.command(ctx, l.programs.self, "role", "put", name, "in/lines.txt")), os.Remove(name))
}

func writeLines(name string, items int) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	for i := range items {
		fmt.Fprintf(w, "line %d\n", i)
	}
	return errors.Join(w.Flush(), f.Close())
}

// sumOf returns the checksum of what a command prints.
func sumOf(cmd *exec.Cmd) (string, error) {
	sum := sha256.New()
	cmd.Stdout = sum
	err := finish(cmd)
	return hex.EncodeToString(sum.Sum(nil)), err
}

// running is a job under way.
type running struct {
	name    string
	began   time.Time
	reached chan int // percent
	ended   <-chan error
	report  job.Report
}

// begin starts a job, and follows it.
func (l *lab) begin(ctx context.Context, name string) (*running, error) {
	start := l.servers.host.command(ctx, l.programs.stint, "start", "--name", name, "--pool", pool, "--fresh",
		"--expiry", expiry.String(), "--batch-items", fmt.Sprint(max(l.input.items/batches, 1)),
		"s3://"+bucket+"/in/lines.txt"+inBucket, "-o", "s3://"+bucket+"/out/"+name+".txt"+inBucket)
	r := &running{name: name, began: time.Now(), reached: make(chan int, 1000)}
	if err := finish(start); err != nil {
		return nil, err
	}
	r.ended = trap.Go("watching", func() error { return l.follow(ctx, r) })
	return r, nil
}

// follow watches a job to its end.
func (l *lab) follow(ctx context.Context, r *running) error {
	defer close(r.reached)
	var last bytes.Buffer
	watch := l.servers.host.command(ctx, l.programs.stint, "watch", "--json", r.name)
	watch.Stdout = &last
	said, write := io.Pipe()
	watch.Stderr = write
	log, err := os.Create(filepath.Join(l.dir, r.name+".watch.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	read := trap.Go("reading progress", func() error { return r.read(io.TeeReader(said, log)) })
	err = errors.Join(watch.Run(), write.Close(), <-read)
	if err != nil {
		return fmt.Errorf("watching %s: %w\n%s", r.name, err, last.String())
	}
	return json.Unmarshal(last.Bytes(), &r.report)
}

// read reads what 'stint watch --json' says while the job runs.
func (r *running) read(from io.Reader) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct{ Percent *float64 }
		if json.Unmarshal(lines.Bytes(), &line) != nil || line.Percent == nil {
			continue
		}
		select {
		case r.reached <- int(*line.Percent):
		default: // nobody waits for it
		}
	}
	return lines.Err()
}

// until waits until a job has done a share of its items, in percent. It is an error if the job ends before that shows.
func (r *running) until(ctx context.Context, percent int) error {
	for {
		select {
		case p, ok := <-r.reached:
			if !ok {
				return fmt.Errorf("%s has ended before it was seen to have done %d %%: nothing has failed meanwhile", r.name, percent)
			}
			if p >= percent {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("waiting for %d %% of %s: %w", percent, r.name, ctx.Err())
		}
	}
}

// exact waits for a job's end, and compares what it has written.
func (l *lab) exact(ctx context.Context, r *running) error {
	select {
	case err := <-r.ended:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		return fmt.Errorf("waiting for the end of %s: %w", r.name, ctx.Err())
	}
	if r.report.State != job.Completed || r.report.OK != int64(l.input.items) {
		return fmt.Errorf("%s: %s, %d of %d items are ok", r.name, r.report.State, r.report.OK, l.input.items)
	}
	sum, err := sumOf(l.servers.host.command(ctx, l.programs.self, "role", "get", "out/"+r.name+".txt"))
	if err == nil && sum != l.input.sum {
		err = fmt.Errorf("%s: the output is another one: sha256 %s instead of %s", r.name, sum, l.input.sum)
	}
	return err
}
