package timers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
)

// ProcessReaper ends the process of a worker that is not this process's child: it kills the
// process and, if the process leads a process group, the whole group. It never signals another process that has got the same
// pid since. (The process's parent can do better: kill its group before it waits for it.)
type ProcessReaper struct {
	pid      int
	started  uint64
	patience time.Duration
	table    ProcessTable
}

// ProcessOptions tune a [ProcessReaper]. The zero value of a field means its default.
type ProcessOptions struct {
	// Patience is how long a process may take to end after a signal other than KILL, before KILL
	// follows. Default 5 s; 10 ms to 8 s, which is below the reaping's own limit.
	Patience time.Duration
	// Table finds processes. Default: the system's, which exists on Linux only.
	Table ProcessTable
}

// ProcessTable finds processes. It must be safe for concurrent use.
type ProcessTable interface {
	// Find describes the process that has the pid now, even a zombie. The error is [os.ErrProcessDone] if there is none.
	Find(pid int) (ProcessInfo, error)
	// Open returns a handle of the process that has the pid now. The error is [os.ErrProcessDone] if there is none, here or
	// from the handle. The caller closes the handle.
	Open(pid int) (ProcessHandle, error)
}

// ProcessInfo describes a process.
type ProcessInfo struct {
	// StartTime is when it was started, in a unit of the table's own. It distinguishes the
	// process from others that had the pid before or will have it.
	StartTime uint64
	// Group is the ID of its process group: its own pid if it leads one.
	Group int
	// Zombie: it has ended and its parent has not waited for it yet.
	Zombie bool
}

// ProcessHandle refers to one process, even if its pid is used again.
type ProcessHandle interface {
	// Signal signals the process. If it has ended the error is [os.ErrProcessDone].
	Signal(signal syscall.Signal) error
	// SignalGroup signals all processes of the group that the process leads, or has led. If none
	// is left, or that cannot be known, the error is [os.ErrProcessDone].
	SignalGroup(signal syscall.Signal) error
	// Close releases the handle. No other method may be called after it.
	Close() error
}

const (
	defaultPatience = 5 * time.Second
	minPatience     = 10 * time.Millisecond
	maxPatience     = 8 * time.Second

	// endInterval is how often to check whether a process has ended.
	endInterval = 10 * time.Millisecond
)

// NewProcessReaper returns a reaper of the process that has the pid now. The caller must know that this is the right one, as
// its parent does, or a process that has just received something from it. It is an
// error if there is no such process ([os.ErrProcessDone]), if it is this one or the system's
// first, or if this is not supported ([errors.ErrUnsupported]).
func NewProcessReaper(pid int, o ProcessOptions) (*ProcessReaper, error) {
	if o.Patience == 0 {
		o.Patience = defaultPatience
	}
	if o.Patience < minPatience || o.Patience > maxPatience {
		return nil, fmt.Errorf("patience %v: use %v to %v", o.Patience, minPatience, maxPatience)
	}
	if o.Table == nil {
		o.Table = systemTable
	}
	switch {
	case o.Table == nil:
		return nil, fmt.Errorf("reaping processes on %s: %w", runtime.GOOS, errors.ErrUnsupported)
	case pid <= 1: // kill(2) takes these for groups, or for everybody
		return nil, fmt.Errorf("process %d must not be reaped: use a pid above 1", pid)
	case pid == os.Getpid():
		return nil, fmt.Errorf("process %d must not be reaped: it is this one", pid)
	}
	info, err := o.Table.Find(pid)
	if err == nil && info.Zombie {
		err = os.ErrProcessDone
	}
	if err != nil {
		return nil, fmt.Errorf("finding process %d: %w", pid, err)
	}
	return &ProcessReaper{pid: pid, started: info.StartTime, patience: o.Patience, table: o.Table}, nil
}

// Reap ends the process with the expiry's signal, KILL if it has none; after the options' patience
// KILL follows. If the process leads a group, and this process is not in it, the whole group gets
// the signals, and KILL in any case in the end (before Linux 6.9, members that outlive a leader
// whose parent has waited for it are not reached). Reap returns nil once the process has ended, or
// if it had ended before.
func (r *ProcessReaper) Reap(ctx context.Context, e Expiry) error {
	h, err := r.table.Open(r.pid)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("taking hold of process %d: %w", r.pid, err)
	}
	defer h.Close()
	// A process with the right start time now had the pid when it was opened, too.
	info, here, err := r.find()
	if err != nil || !here {
		return err
	}
	kill := h.Signal
	leads, err := r.leads(info)
	if err != nil {
		return err
	}
	if leads {
		kill = h.SignalGroup
	}
	if e.Signal != 0 && e.Signal != syscall.SIGKILL {
		ended, err := r.ask(ctx, kill, e.Signal)
		if err != nil || ended && !leads {
			return err
		}
	}
	return r.kill(ctx, kill)
}

// find looks for the process; here is false if it is gone, its pid perhaps another's.
func (r *ProcessReaper) find() (info ProcessInfo, here bool, err error) {
	info, err = r.table.Find(r.pid)
	if errors.Is(err, os.ErrProcessDone) {
		return info, false, nil
	}
	if err != nil {
		return info, false, fmt.Errorf("finding process %d: %w", r.pid, err)
	}
	return info, info.StartTime == r.started, nil
}

// leads reports whether the process leads a group that may be signalled.
func (r *ProcessReaper) leads(info ProcessInfo) (bool, error) {
	if info.Group != r.pid {
		return false, nil
	}
	own, err := r.table.Find(os.Getpid())
	if err != nil {
		return false, fmt.Errorf("finding this process: %w", err)
	}
	return own.Group != r.pid, nil
}

// ask signals and waits, until the patience is over.
func (r *ProcessReaper) ask(ctx context.Context, kill func(syscall.Signal) error, signal syscall.Signal) (ended bool, err error) {
	if err := r.send(ctx, kill, signal); err != nil {
		return false, err
	}
	patience, cancel := context.WithTimeout(ctx, r.patience)
	defer cancel()
	return r.awaitEnd(patience)
}

func (r *ProcessReaper) kill(ctx context.Context, kill func(syscall.Signal) error) error {
	if err := r.send(ctx, kill, syscall.SIGKILL); err != nil {
		return err
	}
	ended, err := r.awaitEnd(ctx)
	if err == nil && !ended {
		err = fmt.Errorf("process %d has not ended since it was killed: %w", r.pid, ctx.Err())
	}
	return err
}

// send signals, unless the reaping is over.
func (r *ProcessReaper) send(ctx context.Context, kill func(syscall.Signal) error, signal syscall.Signal) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := kill(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending %v to process %d: %w", signal, r.pid, err)
	}
	return nil
}

// awaitEnd waits until the process has ended, or ctx has.
func (r *ProcessReaper) awaitEnd(ctx context.Context) (ended bool, err error) {
	ticks := time.NewTicker(endInterval)
	defer ticks.Stop()
	for {
		info, here, err := r.find()
		if err != nil || !here || info.Zombie {
			return err == nil, err
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return false, nil
		}
	}
}
