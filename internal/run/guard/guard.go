// Package guard ends process groups when the process that started them is gone, however it went.
//
// A parent-death signal reaches children only. So a worker that starts children also starts one
// guard: its own binary again, in its own session, which shares a table of the numbers of the
// children's process groups with it. When the pipe between them ends, the worker has ended, and the guard kills the
// groups that are left.
//
// A program calls [Main] first thing in main: its process can have guards then, and a process that is started as one
// becomes it. If it sees that its worker has started it, it becomes it earlier, when this package is initialised: the
// packages of a program with a worker take longer to be initialised than anything that a guard does.
package guard

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-run/stint/internal/base/trap"
)

// marker in the environment makes a process a guard. Its value is the number of the process that has started it.
const marker = "STINT_GUARD"

// mainCalled is set in programs that call Main.
var mainCalled atomic.Bool

// Main makes the process a guard if it was started as one; then it does not return. Otherwise it allows [Start] to start
// guards.
func Main() {
	if os.Getenv(marker) != "" {
		become()
	}
	mainCalled.Store(true)
}

func init() {
	// A variable alone, which somebody has set, changes nothing. A guard whose worker has gone already is left to Main.
	if os.Getenv(marker) == strconv.Itoa(os.Getppid()) {
		become()
	}
}

// become makes the process a guard.
func become() {
	signal.Ignore(ignored...) // it ends with its pipe, and with nothing else
	serve(os.Stdin, func() (map[int]struct{}, error) { return groupsIn(os.NewFile(tableFile, "table")) }, killGroup)
	os.Exit(0)
}

// dismissal is the line after which a guard ends without a look at what is left.
const dismissal = "."

// tableFile is the descriptor of the table in the guard's process.
const tableFile = 3

// serve reads "=mark" lines to their end, and then kills the groups that are left. If there were marks, it also
// kills the processes in the sessions that these groups' leaders lead, and those that have one of the marks. A dismissal
// ends it at once.
func serve(r io.Reader, left func() (map[int]struct{}, error), kill func(group int)) {
	var marks []string
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			break // a line that is cut short is another mark
		}
		line = strings.TrimSuffix(line, "\n")
		if line == dismissal {
			return
		}
		if mark, ok := strings.CutPrefix(line, "="); ok && mark != "" {
			marks = append(marks, mark)
		}
	}
	groups, err := left()
	if err != nil {
		groups = nil // the marks are left
	}
	for group := range groups {
		kill(group)
	}
	if len(marks) > 0 {
		killMarked(groups, marks)
	}
}

// Guard is a running guard process. It is safe for concurrent use.
type Guard struct {
	mu     sync.Mutex
	groups *table // nil if no guard is available
	marks  []string
	cmd    *exec.Cmd
	pipe   io.WriteCloser
	closed bool

	quit    chan struct{} // closed with Close
	minding sync.WaitGroup
}

// Available reports whether this process can have a guard: the system supports them, and the program
// has called [Main].
func Available() bool { return Supported && mainCalled.Load() }

// prepared is what [Prepare] has started and nobody has got yet.
var prepared struct {
	mu    sync.Mutex
	guard *Guard
}

// Prepare starts the guard that the next [Start] returns, so that its process begins while this one has other things to
// begin. The caller must call end, which ends it if no Start has come.
func Prepare() (end func()) {
	prepared.mu.Lock()
	defer prepared.mu.Unlock()
	if prepared.guard != nil {
		return func() {}
	}
	g, err := start()
	if err != nil {
		return func() {} // Start tries again, and says why
	}
	prepared.guard = g
	return func() {
		prepared.mu.Lock()
		defer prepared.mu.Unlock()
		if prepared.guard == g {
			prepared.guard = nil
			g.Dismiss()
		}
	}
}

// Start starts a guard for this process. If none is [Available] it returns a Guard that does nothing.
func Start() (*Guard, error) {
	prepared.mu.Lock()
	defer prepared.mu.Unlock()
	if g := prepared.guard; g != nil {
		prepared.guard = nil
		return g, nil
	}
	return start()
}

func start() (*Guard, error) {
	g := &Guard{quit: make(chan struct{})}
	if !Available() {
		return g, nil
	}
	var err error
	if g.groups, err = newTable(); err != nil {
		return nil, err
	}
	if err := g.launch(); err != nil {
		g.groups.close()
		return nil, err
	}
	return g, nil
}

func (g *Guard) launch() error {
	cmd := exec.Command(selfPath)
	cmd.Env = []string{marker + "=" + strconv.Itoa(os.Getpid())}
	cmd.SysProcAttr, cmd.ExtraFiles = ownSession(), []*os.File{g.groups.file} // tableFile
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("starting the guard process: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the guard process: %w", err)
	}
	g.cmd, g.pipe = cmd, pipe
	g.minding.Go(func() {
		if defect := trap.Run("minding the guard", func() { g.mind(cmd) }); defect != nil {
			slog.Error(defect.Error()) // the next change of a group starts another one
		}
	})
	return nil
}

// restartWait is the wait before another guard is started if one could not be started, or ended sooner
// than this.
const restartWait = 100 * time.Millisecond

// mind waits for the guard's end, and starts another one at once unless it was asked to end.
func (g *Guard) mind(cmd *exec.Cmd) {
	began := time.Now()
	_ = cmd.Wait() // its status says nothing
	for wait := restartWait - time.Since(began); ; wait = restartWait {
		if wait > 0 {
			select {
			case <-g.quit:
				return
			case <-time.After(wait):
			}
		}
		if g.replaced(cmd) {
			return
		}
	}
}

// replaced replaces the guard cmd, if that is needed. It returns false if that has failed.
func (g *Guard) replaced(cmd *exec.Cmd) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed || g.cmd != cmd || g.replace() == nil
}

// replace starts another guard, which gets the table and all marks.
func (g *Guard) replace() error {
	_ = g.pipe.Close() // the guard, if it is still alive, ends with it
	if err := g.launch(); err != nil {
		return err
	}
	var all strings.Builder
	for _, mark := range g.marks {
		fmt.Fprintf(&all, "=%s\n", mark)
	}
	if _, err := io.WriteString(g.pipe, all.String()); err != nil {
		return fmt.Errorf("writing to the guard process: %w", err)
	}
	return nil
}

// Mark has the processes whose variable STINT_CHILD begins with the mark killed when this process ends;
// "" means none. A mark has no line ends.
func (g *Guard) Mark(mark string) error {
	if mark == "" {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.marks = append(g.marks, mark)
	if g.cmd == nil || g.closed {
		return nil
	}
	if _, err := io.WriteString(g.pipe, "="+mark+"\n"); err == nil {
		return nil
	}
	return g.replace() // it has died
}

// Add has the process group killed when this process ends.
func (g *Guard) Add(group int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cmd == nil || g.closed {
		return nil
	}
	return g.groups.add(group)
}

// Remove takes the group back: it must not have been reaped yet, or its number may be another's.
func (g *Guard) Remove(group int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cmd != nil && !g.closed {
		g.groups.remove(group)
	}
}

// Dismiss is Close for a guard that has nothing to kill: it does not look for marked processes, which takes
// milliseconds, or more on a machine with many processes.
func (g *Guard) Dismiss() { g.end(dismissal + "\n") }

// Close ends the guard, which kills the groups that are left, and what is marked. It is idempotent.
func (g *Guard) Close() { g.end("") }

func (g *Guard) end(last string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.cmd == nil {
		return
	}
	g.closed = true
	close(g.quit)
	_, _ = io.WriteString(g.pipe, last) // it ends with the pipe in any case
	_ = g.pipe.Close()
	g.mu.Unlock()
	g.minding.Wait()
	g.mu.Lock()
	g.groups.close()
}

// PID returns the number of the guard's process; 0 if there is none.
func (g *Guard) PID() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cmd == nil {
		return 0
	}
	return g.cmd.Process.Pid
}
