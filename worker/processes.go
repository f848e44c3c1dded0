package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"sync"

	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/child"
	"github.com/stint-run/stint/timers"
)

// processes runs a handler's calls in processes of their own, each of which ends with its call.
type processes struct {
	dependencies
	children *child.Starter
	env      []string
	dir      string
}

func newProcesses(s dependencies) (processes, error) {
	children, err := child.NewStarter(s.log)
	return processes{dependencies: s, children: children, env: s.options.childEnv(), dir: s.options.Dir}, err
}

func (*processes) start(context.Context) error { return nil }

func (h *processes) Close() { h.children.Close() }

// dialogue is what a process is told, and what it answers.
type dialogue interface {
	// Feed writes to the process's standard input, which is closed after it.
	Feed(ctx context.Context, in io.Writer)
	// Take reads the answer to its end. After an error the process is killed.
	Take(out io.Reader) error
}

// processEnd is how a process has ended.
type processEnd struct {
	status error  // nil: with status 0
	stderr string // the end of its standard error
}

// exit returns the status with which a process has exited; -1: it has not.
func (e processEnd) exit() int {
	if e.status == nil {
		return 0
	}
	if exit, ok := errors.AsType[*exec.ExitError](e.status); ok && !signaled(e.status) {
		return exit.ExitCode()
	}
	return -1
}

// run runs a process for a call. The error is that of Take, or a *calls.UnbegunError: the process was not started.
func (h *processes) run(ctx context.Context, call *calls.Call, path string, argv []string, data dialogue) (processEnd, error) {
	slot := call.Place.Describe().Slot
	env := append(slices.Clip(h.env), h.options.slotEnv(h.worker, slot, 0)...)
	if parent := call.Traceparent(); parent != "" {
		env = append(env, "TRACEPARENT="+parent)
	}
	cmd := &exec.Cmd{Path: path, Args: argv, Env: env, Dir: h.dir, SysProcAttr: child.GroupAttributes()}
	pipes, err := child.NewPipes(cmd)
	if err != nil {
		return processEnd{}, &calls.UnbegunError{Err: err}
	}
	process, err := h.children.Start(cmd, h.options.cpusOf(slot))
	pipes.CloseChildEnds()
	if err != nil {
		pipes.Close()
		return processEnd{}, &calls.UnbegunError{Err: fmt.Errorf("starting %s: %w", argv[0], err)}
	}
	gone := make(chan struct{})
	cut := make(chan struct{})
	spare := trap.OnDone(ctx, "ending a process", h.dependencies.defect, func() {
		defer close(cut)
		h.cut(call, process, gone, context.Cause(ctx))
	})
	defer func() {
		if !spare() {
			<-cut // it ends with the process
		}
	}()

	var stderr child.Tail
	var copying sync.WaitGroup
	copying.Go(func() { // a process need not read all: only its answer counts
		h.dependencies.run("writing to a process", func() { data.Feed(ctx, pipes.Stdin) }, process.Kill)
		_ = pipes.Stdin.Close()
	})
	copying.Go(func() { // ends with the process or its drain limit
		h.dependencies.run("reading a process's standard error", func() { _, _ = io.Copy(&stderr, pipes.Stderr) }, process.Kill)
	})
	exited := make(chan error, 1)
	go func() {
		var err error
		h.dependencies.run("waiting for a process", func() { err = process.Wait() }, process.Kill)
		close(gone)
		pipes.Hurry()
		exited <- err
	}()
	readErr := data.Take(pipes.Stdout)
	if readErr != nil {
		process.Kill()
	}
	exitErr := <-exited
	copying.Wait()
	pipes.Close()
	return processEnd{exitErr, stderr.Text()}, readErr
}

// cut ends the process of a call that must not continue: at once if its timer has expired, with TERM
// first if everything must end.
func (h *processes) cut(call *calls.Call, c *child.Process, gone <-chan struct{}, cause error) {
	if _, ok := errors.AsType[*timers.ExpiredError](cause); ok {
		c.Kill()
		return
	}
	if last, refused := c.EndSoftly(gone, h.options.killAfter(calls.Drained(cause))); refused == nil {
		call.Forced(c.Cmd.Process.Pid, last, cause)
	}
}
