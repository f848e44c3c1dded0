package child

import (
	"fmt"
	"log/slog"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/stint-run/stint/internal/guard"
	"github.com/stint-run/stint/internal/trap"
)

// Starter starts the child processes of a worker. Every child has its own process group,
// gets a parent-death signal, and is known to the worker's guard process until it is reaped.
//
// What a child has started ends with it, also what has left its process group (see package comment).
//
// The parent-death signal is sent when the thread that started the child ends. So one goroutine,
// locked to its thread, starts them all; it ends after the last of them.
type Starter struct {
	guard    *guard.Guard
	requests chan startRequest
	done     sync.WaitGroup
	once     sync.Once
}

type startRequest struct {
	cmd  *exec.Cmd
	cpus []int // that it may run on; nil: all
	err  chan<- error
}

// NewStarter starts a guard for the children to come. The caller must Close the Starter. If there is none because the program does not call ChildMain, it
// logs a warning.
func NewStarter(log *slog.Logger) (*Starter, error) {
	if guard.Supported && !guard.Available() {
		log.Warn("no guard process: if this worker is killed, processes that its child processes have started continue; call worker.ChildMain first thing in main")
	}
	g, err := guard.Start()
	if err != nil {
		return nil, err
	}
	mark := orphanage.newMark()
	if err := g.Mark(mark); err != nil {
		g.Close()
		return nil, err
	}
	orphanage.enter()
	c := &Starter{guard: g, requests: make(chan startRequest)}
	c.done.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for r := range c.requests {
			r.err <- trap.Call("starting a process", func() error { return orphanage.start(r.cmd, r.cpus, mark) })
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
		deserted := orphanage.deserted(c.guard.PID())
		orphanage.leave()
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
	refused error // why it could not be killed
}

// Kill kills the child's process group. It may be called at any time.
func (c *Process) Kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return
	}
	orphanage.look(c.Cmd.Process.Pid)
	c.refused = killGroup(c.Cmd.Process)
}

// Refused returns why the last Kill has failed, for example because the child runs as another user; nil if it has not.
func (c *Process) Refused() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused == nil {
		return nil
	}
	return fmt.Errorf("killing process %d: %w", c.Cmd.Process.Pid, c.refused)
}

// Signal sends a signal to the child alone. It may be called at any time.
func (c *Process) Signal(s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		_ = c.Cmd.Process.Signal(s) // it may be gone
	}
}

// SignalGroup sends a signal to the child's process group. It may be called at any time.
func (c *Process) SignalGroup(s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		signalGroup(c.Cmd.Process, s)
	}
}

// EndSoftly ends the child's process group: TERM first, and KILL if the child has not gone by the limit. It
// returns the last signal that it has sent.
func (c *Process) EndSoftly(gone <-chan struct{}, limit time.Duration) syscall.Signal {
	c.SignalGroup(syscall.SIGTERM)
	select {
	case <-gone:
		return syscall.SIGTERM
	case <-time.After(limit):
		c.Kill()
		return syscall.SIGKILL
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
		c.reaped = true
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	orphanage.round(c.Cmd.Process.Pid, map[int]bool{}) // before connections with what is below the group are lost
	_ = killGroup(c.Cmd.Process)                       // its leader has ended; there may be nobody else
	orphanage.end(c.Cmd.Process.Pid)
	defer orphanage.reaped(c.Cmd.Process.Pid)
	removeErr := c.of.guard.Remove(c.Cmd.Process.Pid)
	c.reaped = true
	if err := c.Cmd.Wait(); err != nil {
		return err
	}
	return removeErr
}
