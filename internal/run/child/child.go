package child

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/stint-run/stint/internal/base/backoff"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/run/guard"
)

// Starter starts the child processes of a worker. Every child has its own process group,
// gets a parent-death signal, and is known to the worker's guard process until it is reaped.
//
// What a child has started ends with it, also what has left its process group (see package comment).
//
// The parent-death signal is sent when the thread that started the child ends. So one goroutine,
// locked to its thread, starts them all; it ends after the last of them.
type Starter struct {
	// SignalGroup sends a signal to the process group that a child leads. One that is gone is not an error. Tests
	// replace it before the first Start.
	SignalGroup func(leader *os.Process, s syscall.Signal) error

	log      *slog.Logger
	guard    *guard.Guard
	below    descendants
	requests chan startRequest
	done     sync.WaitGroup
	once     sync.Once
}

type startRequest struct {
	cmd  *exec.Cmd
	cpus []int // that it may run on; nil: all
	err  chan<- error
}

// descendants is what is known of the processes that children start, and what becomes of them.
type descendants interface {
	newMark() string // of a Starter
	enter()          // a Starter begins
	leave()          // and ends
	// deserted reports whether nothing is left of what children have started.
	deserted(guard int) bool
	start(cmd *exec.Cmd, cpus []int, mark string) error
	look(child int)   // it is about to get a signal
	part(child int)   // it has ended, and what is left of its group is about to be killed
	end(child int)    // that has been done; the child has not been reaped
	reaped(child int) // now it has
}

const (
	// A kill that is refused is repeated after refusedFirst, and then after waits that double, up to refusedLimit.
	refusedFirst = 100 * time.Millisecond
	refusedLimit = 10 * time.Second
)

// NewStarter starts a guard for the children to come. The caller must Close the Starter. If there is none because the
// program does not call ChildMain, it logs a warning.
func NewStarter(log *slog.Logger) (*Starter, error) { return newStarter(log, orphanage) }

// NewDaemonStarter is NewStarter for children that may leave daemons: processes that have begun a session of their own
// stay, when their child ends and when this process does. What is in the child's session ends with it; it has a moment
// to begin one of its own. Where there are no sessions to be looked at, that holds for groups.
func NewDaemonStarter(log *slog.Logger) (*Starter, error) { return newStarter(log, daemons) }

func newStarter(log *slog.Logger, below descendants) (*Starter, error) {
	if guard.Supported && !guard.Available() {
		log.Warn("no guard process: if this worker is killed, processes that its child processes have started continue; call worker.ChildMain first thing in main")
	}
	g, err := guard.Start()
	if err != nil {
		return nil, err
	}
	mark := below.newMark()
	if err := g.Mark(mark); err != nil {
		g.Close()
		return nil, err
	}
	below.enter()
	c := &Starter{SignalGroup: signalGroup, log: log, guard: g, below: below, requests: make(chan startRequest)}
	c.done.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for r := range c.requests {
			r.err <- trap.Call("starting a process", func() error { return below.start(r.cmd, r.cpus, mark) })
		}
	})
	return c, nil
}

// Start starts a child that may run on the CPUs only, or on all if none are given. The
// caller must wait for it.
func (c *Starter) Start(cmd *exec.Cmd, cpus []int) (*Process, error) {
	err := make(chan error, 1)
	c.requests <- startRequest{cmd, cpus, err}
	if err := <-err; err != nil {
		return nil, err
	}
	ch := &Process{Cmd: cmd, of: c}
	if err := c.guard.Add(cmd.Process.Pid); err != nil {
		ch.Kill()
		_ = ch.Wait() // killed
		return nil, fmt.Errorf("guarding %s: %w", cmd.Path, err)
	}
	return ch, nil
}

// Close ends the guard. No child may be running.
func (c *Starter) Close() {
	c.once.Do(func() {
		close(c.requests)
		c.done.Wait()
		deserted := c.below.deserted(c.guard.PID())
		c.below.leave()
		if deserted {
			c.guard.Dismiss()
		} else {
			c.guard.Close()
		}
	})
}

// Process is a running child process and its group.
type Process struct {
	Cmd *exec.Cmd
	of  *Starter

	mu      sync.Mutex
	reaped  bool
	refused error       // why its group could not be killed
	tries   int         // kills that were refused, one after the other
	again   *time.Timer // until the next one; nil: none was refused
}

// Kill kills the child's process group. It may be called at any time. A kill that is refused, for example because the
// child runs as another user, is logged, and repeated until it succeeds or the child has ended.
func (c *Process) Kill() { _ = c.kill() }

// kill is Kill, and returns why it was refused.
func (c *Process) kill() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return nil
	}
	if c.refused = c.signalGroup(syscall.SIGKILL); c.refused != nil && c.again == nil {
		c.of.log.Error("a process cannot be killed: that is tried again until it has ended", "error", c.refused)
		c.tries = 1
		defect := func(err error) { c.of.log.Error(err.Error()) }
		c.again = trap.After(refusedFirst, "killing a process again", defect, c.killAgain)
	}
	return c.refused
}

// killAgain repeats a kill that was refused.
func (c *Process) killAgain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return
	}
	if c.refused = c.signalGroup(syscall.SIGKILL); c.refused == nil {
		c.again = nil
		return
	}
	c.tries++
	c.again.Reset(backoff.Delay(refusedFirst, c.tries, refusedLimit))
}

// signalGroup sends a signal to the child's process group, after a look at what is below the child. A group that is
// gone is not an error.
func (c *Process) signalGroup(s syscall.Signal) error {
	pid := c.Cmd.Process.Pid
	c.of.below.look(pid)
	if err := c.of.SignalGroup(c.Cmd.Process, s); err != nil {
		return fmt.Errorf("signalling process %d: %w", pid, err)
	}
	return nil
}

// Refused returns why the last kill has failed, for example because the child runs as another user; nil if it has not.
func (c *Process) Refused() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}

// Signal sends a signal to the child alone. It may be called at any time.
func (c *Process) Signal(s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		c.of.below.look(c.Cmd.Process.Pid) // the signal may end it
		_ = c.Cmd.Process.Signal(s)        // it may be gone
	}
}

// SignalGroup sends a signal to the child's process group. It returns why it was refused. It may be called at any time.
func (c *Process) SignalGroup(s syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return nil
	}
	return c.signalGroup(s)
}

// EndSoftly ends the child's process group: TERM first, and KILL, as Kill does, if the child has not gone by the limit.
// It returns the last signal that it has sent, and an error if that was refused.
func (c *Process) EndSoftly(gone <-chan struct{}, limit time.Duration) (last syscall.Signal, refused error) {
	refused = c.SignalGroup(syscall.SIGTERM)
	select {
	case <-gone:
		return syscall.SIGTERM, refused
	case <-time.After(limit):
		return syscall.SIGKILL, c.kill()
	}
}

// Wait returns when the child has ended, and what it has left behind has been killed. The child is
// reaped last, so that its number is not given to another process in between. A system that cannot wait
// without reaping leaves the rest of the group alone: its number may be another's.
func (c *Process) Wait() error {
	if !awaitExit(c.Cmd.Process) {
		err := c.Cmd.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.setReaped()
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	pid := c.Cmd.Process.Pid
	c.of.below.part(pid)
	_ = signalGroup(c.Cmd.Process, syscall.SIGKILL) // its leader has ended; there may be nobody else
	c.of.below.end(pid)
	defer c.of.below.reaped(pid)
	c.of.guard.Remove(pid)
	c.setReaped()
	return c.Cmd.Wait()
}

// setReaped notes that the child's number is not its own any more.
func (c *Process) setReaped() {
	c.reaped = true
	if c.again != nil {
		c.again.Stop()
	}
}
