package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/worker"
)

// waiting is work that waits for something, as requests to a service do, in slots with several calls at once each.
type waiting struct {
	nap                       time.Duration // of an item
	items, slots, concurrency int           // concurrency 0: the worker finds it out
}

func (w waiting) atOnce() int { return w.slots * w.concurrency }

func (w waiting) args() []string {
	return []string{w.nap.String(), strconv.Itoa(w.slots), strconv.Itoa(w.concurrency)}
}

// parseWaiting reads what args has written, without the number of items.
func parseWaiting(args []string) (waiting, error) {
	nap, err := time.ParseDuration(args[0])
	if err != nil {
		return waiting{}, err
	}
	slots, concurrency, err := twoInts(args[1], args[2])
	return waiting{nap: nap, slots: slots, concurrency: concurrency}, err
}

func (w waiting) options() worker.Options {
	return worker.Options{Slots: w.slots, Concurrency: w.concurrency, AutoConcurrency: w.concurrency == 0}
}

func (w waiting) handle(_ context.Context, r record) (record, error) {
	time.Sleep(w.nap)
	return r, nil
}

// stintWaiting runs such work in a Go handler, and serveWaiting in a serve program.
func stintWaiting(args []string) error {
	w, err := parseWaiting(args[3:])
	if err != nil {
		return err
	}
	return embedded(args, worker.Each(w.handle), w.options(), job.Spec{}, true)
}

func serveWaiting(args []string) error {
	w, err := parseWaiting(args[3:])
	if err != nil {
		return err
	}
	return embedded(args, worker.Serve(args[6], "sleeps", w.nap.String()), w.options(), job.Spec{}, true)
}

// bareWaiting returns the pool that one would write by hand: as many goroutines as there are calls at once, each
// with one item at a time.
func bareWaiting(args []string) error {
	w, err := parseWaiting(args[3:])
	if err != nil {
		return err
	}
	return bare(args[0], args[1], w.atOnce(), 1, encodingJSON, w.handle)
}

func (b *bench) waitingRows() []row {
	many := waiting{nap: 50 * time.Millisecond, items: b.items(20_000), slots: 4, concurrency: 50}
	most := waiting{nap: 100 * time.Millisecond, items: b.items(200_000), slots: 10, concurrency: 1000}
	return []row{
		b.waitingRow("go handler", "stint-waiting", "≤ 1.15", many),
		b.waitingRow("serve", "serve-waiting", "≤ 1.15", many),
		b.waitingRow("go handler", "stint-waiting", "≤ 1.2, 1 GB", most),
		b.autoRow(many, 500, 200, 50, 10, 1),
	}
}

// autoRow compares the concurrency that a worker finds out itself with the best of some fixed ones.
func (b *bench) autoRow(w waiting, fixed ...int) row {
	input := func() string { return b.lines(w.items) }
	with := func(role string, concurrency int) func() *exec.Cmd {
		w.concurrency = concurrency
		args := w.args()
		return func() *exec.Cmd { return b.role(role, input(), args...) }
	}
	r := row{
		name: "waiting, auto, go handler", limit: "≤ 1.5", before: b.fresh,
		stint: with("auto-waiting", 0),
		note: func() string {
			return fmt.Sprintf("%s items of %v, %d slots; against the best of %v calls at once in a slot; %s",
				text.Thousands(int64(w.items)), w.nap, w.slots, fixed, b.histories("auto-waiting"))
		},
		failure: func() string {
			if err := sameFiles(b.output("auto-waiting"), b.output("stint-waiting")); err != nil {
				return err.Error()
			}
			return ""
		},
	}
	for _, n := range fixed {
		r.peers = append(r.peers, with("stint-waiting", n))
	}
	return r
}

// waitingRow compares calls at once with a bare pool of goroutines. It fails if their outputs differ.
func (b *bench) waitingRow(handler, role, limit string, w waiting) row {
	input := func() string { return b.lines(w.items) }
	more := append(w.args(), b.child)
	return row{
		name:  fmt.Sprintf("waiting, %s at once, %s", text.Thousands(int64(w.atOnce())), handler),
		limit: limit, before: b.fresh,
		stint: func() *exec.Cmd { return b.role(role, input(), more...) },
		peer:  func() *exec.Cmd { return b.role("bare-waiting", input(), more...) },
		note: func() string {
			return fmt.Sprintf("%s items of %v, %d slots; %s", text.Thousands(int64(w.items)), w.nap, w.slots, b.histories(role))
		},
		failure: func() string {
			if err := sameFiles(b.output(role), b.output("bare-waiting")); err != nil {
				return err.Error()
			}
			return ""
		},
	}
}

// sameFiles returns an error if the files do not hold the same bytes.
func sameFiles(a, b string) error {
	x, err := os.ReadFile(a)
	if err != nil {
		return err
	}
	y, err := os.ReadFile(b)
	if err != nil {
		return err
	}
	if !bytes.Equal(x, y) {
		return fmt.Errorf("%s and %s differ", a, b)
	}
	return nil
}
