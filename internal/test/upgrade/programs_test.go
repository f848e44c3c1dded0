package upgrade

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is how long a process may take for what it does in a second on an idle machine.
const patience = 3 * time.Minute

// programs are the paths of the two programs.
type programs struct{ previous, next string }

// build builds both. The previous one is kept in Go's cache, since it is always the same.
func build(t *testing.T) programs {
	t.Helper()
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	p := programs{previous: previous(t, root), next: filepath.Join(t.TempDir(), "stint")}
	compile(t, root, p.next, "nextlogic")
	return p
}

// previous returns the program of the commit in PREVIOUS.
func previous(t *testing.T, root string) string {
	t.Helper()
	data, err := os.ReadFile("PREVIOUS")
	require.NoError(t, err)
	commit := strings.TrimSpace(string(data))
	kept := filepath.Join(output(t, root, "go", "env", "GOCACHE"), fmt.Sprintf("stint-%s-%s", commit, runtime.Version()))
	if _, err := os.Stat(kept); err == nil {
		return kept
	}
	if err := exec.Command("git", "-C", root, "cat-file", "-e", commit+"^{commit}").Run(); err != nil {
		t.Skipf("this copy of the repository does not have the commit %s, from which the previous program is built", commit)
	}
	source, archive := t.TempDir(), filepath.Join(t.TempDir(), "source.tar")
	output(t, root, "git", "archive", "-o", archive, commit)
	output(t, root, "tar", "-xf", archive, "-C", source)
	made := kept + fmt.Sprintf(".%d", os.Getpid())
	compile(t, source, made, "")
	require.NoError(t, os.Rename(made, kept))
	return kept
}

// compile builds the program of a folder, with the flags of these tests, so that what it stands on is in Go's cache.
func compile(t *testing.T, folder, path, tag string) {
	t.Helper()
	tags := "disable_grpc_modules"
	if tag != "" {
		tags += "," + tag
	}
	output(t, folder, "go", "build", "-buildvcs=false", "-tags="+tags, "-ldflags=-s -w", "-o", path, ".")
}

func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s %v: %s", name, args, stderr.String())
	return strings.TrimSpace(string(out))
}

// cluster is a server and workers, whose programs are replaced.
type cluster struct {
	t       *testing.T
	dir     string
	address string
	server  *process
	workers []*process
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return &cluster{t: t, dir: t.TempDir(), address: l.Addr().String()}
}

// process is one of a program.
type process struct {
	cmd  *exec.Cmd
	said bytes.Buffer // after its end
	done chan error
}

// start starts a process, which ends with the test.
func (c *cluster) start(env []string, program string, args ...string) *process {
	c.t.Helper()
	p := &process{cmd: exec.Command(program, args...), done: make(chan error, 1)}
	p.cmd.Dir, p.cmd.Env = c.dir, append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.said, &p.said
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(c.t, p.cmd.Start())
	ended := make(chan struct{})
	go func() {
		p.done <- p.cmd.Wait()
		close(ended)
	}()
	c.t.Cleanup(func() {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-ended
	})
	return p
}

// end asks a process to end, and waits for that.
func (c *cluster) end(p *process) {
	c.t.Helper()
	require.NoError(c.t, p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-p.done:
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			require.Less(c.t, exit.ExitCode(), 2, p.said.String())
		}
	case <-time.After(patience):
		require.Fail(c.t, "a process does not end")
	}
}

// serve starts the server, or replaces it by that of another program.
func (c *cluster) serve(program string) {
	c.t.Helper()
	if c.server != nil {
		c.end(c.server)
	}
	_, port, err := net.SplitHostPort(c.address)
	require.NoError(c.t, err)
	c.server = c.start(nil, program, "server", "--state", filepath.Join(c.dir, "server"), "--port", port, "--ui-port", "0")
	c.until("the server listens", func() bool {
		conn, err := net.Dial("tcp", c.address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

// work starts a worker, or replaces one. The number of those that there are yet is a further one.
func (c *cluster) work(number int, program string, env ...string) {
	c.t.Helper()
	if number == len(c.workers) {
		c.workers = append(c.workers, nil)
	}
	if c.workers[number] != nil {
		c.end(c.workers[number])
	}
	c.workers[number] = c.start(env, program, "worker", "--address", c.address, "--pool", "p", "--allow", c.dir, "--slots", "4",
		"--call-items", "1", "--drain", "500ms", "--exec", "sh "+filepath.Join(c.dir, "gated.sh"))
}

// run runs a command to its end.
func (c *cluster) run(program string, args ...string) (said string, err error) {
	cmd := exec.CommandContext(c.t.Context(), program, append(args, "--address", c.address)...)
	cmd.Dir = c.dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// must runs a command that succeeds.
func (c *cluster) must(program string, args ...string) string {
	c.t.Helper()
	said, err := c.run(program, args...)
	require.NoError(c.t, err, "%v: %s", args, said)
	return said
}

// state is what a job says of itself.
type state struct {
	State string `json:"state"`
	OK    int64  `json:"ok"`
}

// ask asks a job; the zero state: nobody answers.
func (c *cluster) ask(program, name string) (s state) {
	cmd := exec.CommandContext(c.t.Context(), program, "status", name, "--json", "--address", c.address)
	out, err := cmd.Output()
	if err != nil || json.Unmarshal(out, &s) != nil {
		return state{}
	}
	return s
}

func (c *cluster) until(what string, is func() bool) {
	c.t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			require.Fail(c.t, "not so within "+patience.String(), what)
		}
	}
}

func (c *cluster) write(name, content string, mode fs.FileMode) {
	c.t.Helper()
	require.NoError(c.t, os.WriteFile(filepath.Join(c.dir, name), []byte(content), mode))
}
