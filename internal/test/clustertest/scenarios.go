//go:build linux

package main

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const (
	// expiry is after how long a worker that is silent is presumed dead; shorter and longer are outages of a host that are
	// below and above it.
	expiry  = 6 * time.Second
	shorter = expiry / 2
	longer  = 3 * expiry
	// tooShort is less than a worker needs to drain.
	tooShort = 100 * time.Millisecond
	// skew is how wrong a clock is.
	skew = 90 * time.Second
	// little is the memory of a host on which it runs out, in bytes.
	little = 400 << 20
)

// round says in which runs of the command a scenario is.
type round int

const (
	usual round = iota
	quick       // also in the round of CI
	long        // only in the long one
)

// scenario is something that goes wrong while a job runs.
type scenario struct {
	name string
	// fails makes it go wrong, once the job has done a fifth of its items, and mends it.
	fails func(ctx context.Context, l *lab) error
	// workers, if set, starts them in another way than usual.
	workers func(ctx context.Context, l *lab) error
	round   round
}

var both = []netip.Addr{temporalAddress, bucketAddress}

// scenarios are all of them, in the order in which they run.
var scenarios = []scenario{
	{name: "nothing", fails: nothing},
	{name: "a host is cut off from the server, shorter than the expiry", fails: cut(shorter, temporalAddress)},
	{name: "a host is cut off from the server, longer than the expiry", fails: cut(longer, temporalAddress)},
	{name: "a host is cut off from the bucket, shorter than the expiry", fails: cut(shorter, bucketAddress)},
	{name: "a host is cut off from the bucket, longer than the expiry", fails: cut(longer, bucketAddress)},
	{name: "a host is cut off from both, shorter than the expiry", fails: cut(shorter, both...)},
	{name: "a host is cut off from both, longer than the expiry", fails: cut(longer, both...), round: quick},
	{name: "every host is cut off from both, longer than the expiry", fails: cutAll(longer, both...), round: long},
	{name: "packets are lost (5 %) and late (50 ms) on every host", fails: weather(conditions{loss: 0.05, delay: 50 * time.Millisecond})},
	{name: "PostgreSQL is restarted", fails: restartPostgres(syscall.SIGINT)},
	{name: "PostgreSQL is killed", fails: restartPostgres(syscall.SIGQUIT), round: quick},
	{name: "Temporal is restarted, one service after the other", fails: restartTemporal(syscall.SIGTERM), round: quick},
	{name: "Temporal is killed, one service after the other", fails: restartTemporal(syscall.SIGKILL), round: long},
	{name: "a worker is killed", fails: endWorker(syscall.SIGKILL, 0)},
	{name: "a worker is stopped, with a grace that is too short", fails: endWorker(syscall.SIGTERM, tooShort), round: quick},
	{name: "a worker is stopped, with a grace that is long enough", fails: endWorker(syscall.SIGTERM, patience)},
	{name: "a host has no memory left, and the worker is killed", workers: withLittleMemory, fails: outOfMemory},
	{name: "a host's disk is full", fails: fullDisk},
	{name: "the clock of a host is 90 s slow", workers: withClock(-skew), fails: nothing, round: long},
	{name: "the clock of a host is 90 s fast", workers: withClock(skew), fails: nothing, round: long},
}

func nothing(context.Context, *lab) error { return nil }

// cut cuts one host off from some addresses, for so long.
func cut(d time.Duration, from ...netip.Addr) func(context.Context, *lab) error {
	return func(ctx context.Context, l *lab) error {
		l.hosts[0].wire.set(conditions{cut: from})
		defer l.hosts[0].wire.set(conditions{})
		return wait(ctx, d)
	}
}

// cutAll cuts all hosts off from some addresses, for so long.
func cutAll(d time.Duration, from ...netip.Addr) func(context.Context, *lab) error {
	return func(ctx context.Context, l *lab) error {
		l.weather(conditions{cut: from})
		defer l.weather(conditions{})
		return wait(ctx, d)
	}
}

// weather is on all wires until the job has ended.
func weather(c conditions) func(context.Context, *lab) error {
	return func(_ context.Context, l *lab) error {
		l.weather(c)
		return nil
	}
}

func (l *lab) weather(c conditions) {
	for _, h := range l.hosts {
		h.wire.set(c)
	}
}

// restartPostgres ends the database with a signal: SIGINT ends it in order, SIGQUIT as a crash does.
func restartPostgres(with syscall.Signal) func(context.Context, *lab) error {
	return func(ctx context.Context, l *lab) error {
		l.servers.postgres.signal(with, patience)
		if err := wait(ctx, shorter); err != nil {
			return err
		}
		return l.servers.startPostgres(ctx)
	}
}

// restartTemporal ends each service with a signal and starts it again, a while after the one before.
func restartTemporal(with syscall.Signal) func(context.Context, *lab) error {
	return func(ctx context.Context, l *lab) error {
		for _, name := range services {
			if err := l.servers.restart(name, with); err != nil {
				return err
			}
			if err := wait(ctx, shorter); err != nil {
				return err
			}
		}
		return nil
	}
}

// endWorker ends a worker with a signal, kills it if it takes longer than grace, and starts another one in its place.
func endWorker(with syscall.Signal, grace time.Duration) func(context.Context, *lab) error {
	return func(_ context.Context, l *lab) error {
		h := l.hosts[0]
		h.worker.signal(with, grace)
		return l.startWorker(h, l.programs.stint)
	}
}

// withLittleMemory gives a host's worker little memory.
func withLittleMemory(_ context.Context, l *lab) error {
	h := l.hosts[0]
	if err := h.limit(little); err != nil {
		return err
	}
	return h.join(h.worker.cmd.Process.Pid)
}

// outOfMemory has another program take all memory of a host, where the kernel ends the worker first.
func outOfMemory(_ context.Context, l *lab) error {
	h := l.hosts[0]
	score := filepath.Join("/proc", strconv.Itoa(h.worker.cmd.Process.Pid), "oom_score_adj")
	if err := os.WriteFile(score, []byte("1000"), 0); err != nil {
		return err
	}
	hog, err := h.start("hog", l.programs.self, "role", "hog")
	if err != nil {
		return err
	}
	defer hog.kill()
	if err := h.join(hog.cmd.Process.Pid); err != nil {
		return err
	}
	if !h.worker.endsWithin(patience) {
		return errors.New("the kernel has not ended the worker")
	}
	hog.kill()
	return l.startWorker(h, l.programs.stint)
}

// fullDisk fills the disk of a host for temporary files, for longer than the expiry.
func fullDisk(ctx context.Context, l *lab) error {
	full := filepath.Join(l.hosts[0].temporary(), "full")
	f, err := os.Create(full)
	if err != nil {
		return err
	}
	defer os.Remove(full)
	defer f.Close()
	for block := make([]byte, 1<<20); ; {
		if _, err := f.Write(block); err != nil {
			break // it is full
		}
	}
	return wait(ctx, longer)
}

// withClock replaces a host's worker by one whose clock is wrong.
func withClock(by time.Duration) func(context.Context, *lab) error {
	return func(_ context.Context, l *lab) error {
		h := l.hosts[0]
		h.worker.kill()
		return l.startWorker(h, l.programs.late, skewVariable+"="+strconv.Itoa(int(by/time.Second)))
	}
}

// wait lets time pass: that is what an outage is.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
