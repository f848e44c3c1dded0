package starter_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/run/guard"
	"github.com/stretchr/testify/require"
)

// binary builds the stint program, once.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "stint-test-*")
	if err != nil {
		return "", err
	}
	buildDir = dir
	if err := os.Chmod(dir, 0o755); err != nil { // other users run it, too
		return "", err
	}
	path := filepath.Join(dir, "stint")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", path, "github.com/stint-run/stint")
	build.Stderr = os.Stderr
	return path, build.Run()
})

// keeper kills the processes that tests have started if this process ends before they do.
var keeper = sync.OnceValues(func() (*guard.Guard, error) {
	keeping.Store(true)
	return guard.Start()
})

var (
	buildDir string
	keeping  atomic.Bool
)

// endProcesses tidies up after all tests.
func endProcesses() {
	if keeping.Load() {
		if k, err := keeper(); err == nil {
			k.Close()
		}
	}
	for _, dir := range []string{buildDir, moduleDir} {
		if dir != "" {
			_ = os.RemoveAll(dir)
		}
	}
}

// process is a real process in its own process group.
type process struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr buffer
	ended          chan struct{}
}

// spawn starts the stint program as a process. Its group is dead when the test ends.
func (b *box) spawn(args ...string) *process {
	b.t.Helper()
	path, err := binary()
	require.NoError(b.t, err)
	return b.spawnCommand(exec.Command(path, args...))
}

func (b *box) spawnCommand(cmd *exec.Cmd) *process {
	b.t.Helper()
	p, err := b.launch(cmd)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { require.NoError(b.t, p.discard()) })
	return p
}

// launch starts a process, which the caller must discard. Any goroutine may call it.
func (b *box) launch(cmd *exec.Cmd) (*process, error) {
	p := &process{t: b.t, cmd: cmd, ended: make(chan struct{})}
	cmd.Dir, cmd.Env = b.dir, append(slices.Clone(b.env), cmd.Env...)
	if cmd.Stdout == nil {
		cmd.Stdout, cmd.Stderr = &p.stdout, &p.stderr
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = !cmd.SysProcAttr.Setsid // a session's leader leads its group
	cmd.WaitDelay = patience
	k, err := keeper()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // ProcessState has it
	}()
	if err := k.Add(cmd.Process.Pid); err != nil {
		return nil, errors.Join(err, cmd.Process.Kill())
	}
	return p, nil
}

// discard kills the process's group, if it still runs, and forgets it.
func (p *process) discard() error {
	p.kill()
	k, err := keeper()
	if err != nil {
		return err
	}
	k.Remove(p.cmd.Process.Pid)
	return nil
}

// signal sends a signal to the process's group, as a terminal does; one that freezes it, or ends that, to the process
// alone.
func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	select {
	case <-p.ended:
	default:
		to := -p.cmd.Process.Pid
		if s == syscall.SIGSTOP || s == syscall.SIGCONT { // a child that is being started leaves the group: nobody would wake it
			to = -to
		}
		if err := syscall.Kill(to, s); !errors.Is(err, syscall.ESRCH) { // it may just have ended
			require.NoError(p.t, err)
		}
	}
}

// kill kills the process's group and waits for its end.
func (p *process) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	p.await()
}

func (p *process) await() {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // it may be gone
		require.FailNow(p.t, "it does not end", "%q\n%s", p.cmd.Args, p.stderr.String())
	}
}

// exits waits for the process's end and requires its exit code.
func (p *process) exits(code int) *process {
	p.t.Helper()
	p.await()
	require.Equal(p.t, code, p.cmd.ProcessState.ExitCode(), "%q\n%s", p.cmd.Args, p.stderr.String())
	return p
}

// running reports whether the process has not ended.
func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

var marks atomic.Int64

// mark returns an environment variable that marks the processes of a test: no process that has it
// outlives the test.
func (b *box) mark() string {
	mark := "STINT_TEST_MARK=" + strconv.Itoa(os.Getpid()) + "." + strconv.FormatInt(marks.Add(1), 10)
	b.t.Cleanup(func() {
		for _, pid := range marked(b.t, mark) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone
		}
	})
	return mark
}

// marked lists the processes that have the mark in their environment.
func marked(t *testing.T, mark string) []int {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	var pids []int
	for _, path := range found {
		environ, err := os.ReadFile(path)
		if err != nil {
			continue // it has just ended
		}
		for variable := range bytes.SplitSeq(environ, []byte{0}) {
			if string(variable) == mark {
				pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
				require.NoError(t, err)
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// says waits until the process has written text to its standard error.
func (p *process) says(text string) {
	p.t.Helper()
	eventually(p.t, strconv.Quote(text), func() bool {
		if !p.running() {
			require.Contains(p.t, p.stderr.String(), text, "%q has ended", p.cmd.Args)
		}
		return strings.Contains(p.stderr.String(), text)
	})
}
