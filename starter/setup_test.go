package starter_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/temporal/devserver"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/starter"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
	sdkclient "go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
)

const (
	// patience bounds every wait in these tests. It is long because it only matters when
	// something is broken.
	patience = 10 * time.Minute
	// pollEvery is how often a condition that cannot announce itself is looked at. A look may be a command, or all
	// processes of the machine.
	pollEvery = 20 * time.Millisecond
)

var silent = slog.New(slog.DiscardHandler)

// box is a new directory in which commands are run, with its own environment.
type box struct {
	t   *testing.T
	dir string
	env []string
	// terminal is whether commands take their standard error for a person's terminal.
	terminal bool
	// handler and options are those of the program; the zero values are stint's.
	handler worker.Handler
	options starter.Options
}

func setup(t *testing.T) *box {
	t.Helper()
	dir := t.TempDir()
	keep(t, dir)
	return &box{t: t, dir: dir, env: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "TMPDIR=" + os.TempDir(),
	}}
}

// keep copies the directory of a test that has failed to where STINT_TEST_KEEP says.
func keep(t *testing.T, dir string) {
	t.Helper()
	to := os.Getenv("STINT_TEST_KEEP")
	if to == "" {
		return
	}
	t.Cleanup(func() {
		if t.Failed() {
			to = filepath.Join(to, strings.ReplaceAll(t.Name(), "/", "-")+time.Now().Format("-150405"))
			t.Logf("kept in %s: %v", to, os.CopyFS(to, os.DirFS(dir)))
		}
	})
}

func (b *box) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(b.dir, name)
}

// write makes a file, and the directories that it lies in, and returns its path.
func (b *box) write(name, content string) string {
	b.t.Helper()
	path := b.path(name)
	require.NoError(b.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(b.t, os.WriteFile(path, []byte(content), 0o644))
	return path
}

// script makes a program of a shell script and returns its path. It finds the directory of the
// box in $BOX.
func (b *box) script(name, body string) string {
	b.t.Helper()
	path := b.path(name)
	require.NoError(b.t, os.MkdirAll(filepath.Dir(path), 0o755))
	jobtest.WriteProgram(b.t, path, "#!/bin/sh\nBOX='"+b.dir+"'\n"+body+"\n")
	return path
}

// gated makes a filter that notes in the file "started" that it has been started, and passes its
// lines on once the gate is open.
func (b *box) gated() string {
	b.t.Helper()
	return b.script("gated", `echo $$ >> $BOX/started; while [ ! -e $BOX/gate ]; do sleep 0.02; done; exec cat`)
}

// atHold is a line of a script: no item passes it once the file "witness" has so many lines as hold has been given, until
// release.
const atHold = "while read held < $BOX/hold && [ $(wc -l < $BOX/witness) -ge $held ]; do sleep 0.02; done 2> /dev/null"

// hold keeps a job from its end, however late what the test does to it comes: filters that note their items in the file
// "witness" (slowly, witness) pass no more on once it has n lines.
func (b *box) hold(n int) {
	b.t.Helper()
	b.write("hold.new", itoa(n)+"\n")
	require.NoError(b.t, os.Rename(b.path("hold.new"), b.path("hold")))
}

// release lets items go that hold has kept.
func (b *box) release() {
	b.t.Helper()
	require.NoError(b.t, os.Remove(b.path("hold")))
}

// killedHalfWay kills a run once its filter has noted n items in the file "witness", and has the same command end the job.
func (b *box) killedHalfWay(n int, args ...string) {
	b.t.Helper()
	b.hold(n)
	killed := b.spawn(args...)
	eventually(b.t, "half of the items", func() bool { return strings.Count(b.read("witness"), "\n") >= n })
	killed.signal(syscall.SIGKILL)
	killed.await()
	b.release()
	b.stint(args...).exits(starter.ExitOK)
}

// open opens the gate.
func (b *box) open() {
	b.t.Helper()
	b.write("gate", "")
}

func (b *box) read(name string) string {
	b.t.Helper()
	data, err := os.ReadFile(b.path(name))
	require.NoError(b.t, err)
	return string(data)
}

// size is that of a file in bytes, 0 if it does not exist.
func (b *box) size(name string) int64 {
	info, err := os.Stat(b.path(name))
	if err != nil {
		return 0
	}
	return info.Size()
}

// server starts a Temporal server in memory, to which the box's commands connect.
func (b *box) server() *devserver.Server {
	b.t.Helper()
	return b.serverWith(devserver.Options{})
}

func (b *box) serverWith(o devserver.Options) *devserver.Server {
	b.t.Helper()
	o.Logger = silent
	server, err := devserver.Start(b.t.Context(), o)
	require.NoError(b.t, err)
	b.t.Cleanup(server.Stop)
	b.env = append(b.env, "TEMPORAL_ADDRESS="+server.Address())
	return server
}

// embedded connects to the server inside the `stint run` that runs in the box.
func (b *box) embedded() sdkclient.Client {
	b.t.Helper()
	holder, err := devserver.Holder(b.path(".stint/temporal"))
	require.NoError(b.t, err)
	require.NotNil(b.t, holder)
	return b.dial(holder.Address)
}

func (b *box) dial(address string) sdkclient.Client {
	b.t.Helper()
	c, err := sdkclient.Dial(sdkclient.Options{HostPort: address, Logger: sdklog.NewStructuredLogger(silent)})
	require.NoError(b.t, err)
	b.t.Cleanup(c.Close)
	return c
}

// command is a command line that runs, or has run, in this process.
type command struct {
	t              *testing.T
	line           string
	stdout, stderr buffer
	signals        chan os.Signal
	exited         chan int // what the command gave to Program.Exit
	ended          chan struct{}
	code           int
	took           time.Duration
}

// start runs a command line in the background. It has ended when the test ends.
func (b *box) start(args ...string) *command {
	b.t.Helper()
	return b.startWith(strings.NewReader(""), args...)
}

func (b *box) startWith(stdin io.Reader, args ...string) *command {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.t.Context()))
	c := &command{
		t: b.t, line: fmt.Sprintf("stint %q", args), signals: make(chan os.Signal, 2),
		exited: make(chan int, 1), ended: make(chan struct{}),
	}
	program := starter.Program{
		Stdin: stdin, Stdout: &c.stdout, Stderr: &c.stderr, Env: b.env, Dir: b.dir,
		Signals: c.signals, Terminal: b.terminal, Exit: func(code int) { c.exited <- code; cancel() },
		Handler: b.handler, Options: b.options,
	}
	began := time.Now()
	go func() {
		defer close(c.ended)
		c.code = starter.Execute(ctx, program, args)
		c.took = time.Since(began)
	}()
	b.t.Cleanup(func() {
		cancel()
		b.open() // nothing shall wait there
		c.await()
	})
	return c
}

// stint runs a command line to its end.
func (b *box) stint(args ...string) *command {
	b.t.Helper()
	return b.start(args...).await()
}

// await waits for the command's end.
func (c *command) await() *command {
	c.t.Helper()
	select {
	case <-c.ended:
	case <-time.After(patience):
		require.FailNow(c.t, "it does not end", "%s\n%s", c.line, c.stderr.String())
	}
	return c
}

// exits waits for the command's end and requires its exit code.
func (c *command) exits(code int) *command {
	c.t.Helper()
	c.await()
	require.Equal(c.t, code, c.code, "%s\n%s", c.line, c.stderr.String())
	return c
}

// says waits until the command has written text to its standard error.
func (c *command) says(text string) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("%q from %s", text, c.line), func() bool {
		if strings.Contains(c.stderr.String(), text) {
			return true
		}
		select {
		case <-c.ended:
			require.Contains(c.t, c.stderr.String(), text, "%s has ended", c.line)
		default:
		}
		return false
	})
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(pollEvery) {
		if time.Now().After(deadline) {
			require.FailNow(t, "waited in vain for "+what)
		}
	}
}

// buffer is a bytes.Buffer that may be read while it is written to.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func stringReader(s string) io.Reader { return strings.NewReader(s) }

// pipe gives a standard input that can be kept open.
func pipe(t *testing.T) (in, out *os.File) {
	t.Helper()
	in, out, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = in.Close(), out.Close() }) // perhaps a second time
	return in, out
}
