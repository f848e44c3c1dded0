package child

import (
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func init() {
	helpers["threads"] = func() { onAnotherThread(startStranger) }
}

// onAnotherThread runs do on another thread than the first one.
func onAnotherThread(do func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			onAnotherThread(do) // this thread is taken now
			return
		}
		do()
	}()
	<-ended
}

// startStranger starts a process in a session of its own and without an environment, notes its number and waits for it.
func startStranger() {
	cmd := exec.Command("sleep", "1000")
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	if err := os.WriteFile(os.Getenv("PIDS"), []byte(strconv.Itoa(cmd.Process.Pid)+"\n"), 0o600); err != nil {
		panic(err)
	}
	_ = cmd.Wait() // killed
}

// K12: a process that any thread of a child has started ends with the child, whatever signal ends that: in a session of
// its own and without an environment it is known only because it was seen below the child before.
func TestProcess_WhatThreadsHaveStartedEndsToo(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, p *Process, gone <-chan struct{}){
		"killed": func(_ *testing.T, p *Process, _ <-chan struct{}) { p.Kill() },
		"ended softly": func(t *testing.T, p *Process, gone <-chan struct{}) {
			last, err := p.EndSoftly(gone, waitLimit)
			require.NoError(t, err)
			require.Equal(t, syscall.SIGTERM, last)
		},
		"its group gets a signal": func(_ *testing.T, p *Process, _ <-chan struct{}) { _ = p.SignalGroup(syscall.SIGINT) },
		"it gets a signal alone":  func(_ *testing.T, p *Process, _ <-chan struct{}) { p.Signal(syscall.SIGQUIT) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			children, err := NewStarter(slog.New(slog.DiscardHandler))
			require.NoError(t, err)
			defer children.Close()
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), asHelper+"=threads")
			p, pids := familyOf(t, children, 1, cmd)
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				_ = p.Wait() // however it ended
			}()
			end(t, p, gone)
			<-gone
			requireGone(t, pids)
		})
	}
}
