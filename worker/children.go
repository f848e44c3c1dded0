package worker

import (
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/stint-run/stint/internal/guard"
)

// children starts the child processes of a worker. Every child has a process group of its own,
// gets a parent-death signal, and is known to the worker's guard process until it is reaped.
//
// The parent-death signal is sent when the thread that started the child ends. So one goroutine,
// locked to its thread, starts them all; it ends after the last of them.
type children struct {
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

func newChildren() (*children, error) {
	g, err := guard.Start()
	if err != nil {
		return nil, err
	}
	c := &children{guard: g, requests: make(chan startRequest)}
	c.done.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for r := range c.requests {
			r.err <- startPinned(r.cmd, r.cpus)
		}
	})
	return c, nil
}

// startOn starts a child that may run on the CPUs only, or on all where there are none given. The
// caller must wait for it.
func (c *children) startOn(cmd *exec.Cmd, cpus []int) (*child, error) {
	err := make(chan error, 1)
	c.requests <- startRequest{cmd, cpus, err}
	if err := <-err; err != nil {
		return nil, err
	}
	ch := &child{cmd: cmd, of: c}
	if err := c.guard.Add(cmd.Process.Pid); err != nil {
		ch.kill()
		_ = ch.wait() // killed
		return nil, fmt.Errorf("guarding %s: %w", cmd.Path, err)
	}
	return ch, nil
}

// close ends the guard. No child may be running.
func (c *children) close() {
	c.once.Do(func() {
		close(c.requests)
		c.done.Wait()
		c.guard.Close()
	})
}

// child is a running child process and its group.
type child struct {
	cmd *exec.Cmd
	of  *children

	mu     sync.Mutex
	reaped bool
}

// kill kills the child's process group. It may be called at any time.
func (c *child) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		killGroup(c.cmd.Process)
	}
}

// signal sends a signal to the child alone. It may be called at any time.
func (c *child) signal(s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		_ = c.cmd.Process.Signal(s) // it may be gone
	}
}

// signalGroup sends a signal to the child's process group. It may be called at any time.
func (c *child) signalGroup(s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		signalGroup(c.cmd.Process, s)
	}
}

// endSoftly ends the child's process group: TERM first, and KILL where the child has not gone by the
// limit.
func (c *child) endSoftly(gone <-chan struct{}, limit time.Duration) {
	c.signalGroup(syscall.SIGTERM)
	select {
	case <-gone:
	case <-time.After(limit):
		c.kill()
	}
}

// wait returns when the child has ended, and what of its group has been killed. The child is
// reaped last, so that its number is not given to another process in between (where the system
// can wait without reaping).
func (c *child) wait() error {
	if !awaitExit(c.cmd.Process) {
		err := c.cmd.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.reaped = true
		killGroup(c.cmd.Process)
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	killGroup(c.cmd.Process)
	removeErr := c.of.guard.Remove(c.cmd.Process.Pid)
	c.reaped = true
	if err := c.cmd.Wait(); err != nil {
		return err
	}
	return removeErr
}
