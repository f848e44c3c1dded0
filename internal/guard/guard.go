// Package guard ends process groups when the process that started them is gone, however it went.
//
// A parent-death signal reaches children only. So a worker that starts children also starts one
// guard: its own binary again, in a session of its own, which is told of every child's process
// group through a pipe. When the pipe ends, the worker has ended, and the guard kills the groups
// that are left.
//
// Programs that import this package turn into a guard before main, when they are started as one.
package guard

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
)

// marker in the environment makes a process a guard.
const marker = "STINT_GUARD"

func init() {
	if os.Getenv(marker) == "" {
		return
	}
	signal.Ignore(ignored...) // it ends with its pipe, and with nothing else
	serve(os.Stdin, killGroup)
	os.Exit(0)
}

// serve reads "+group" and "-group" lines and kills the groups left over at the end.
func serve(r io.Reader, kill func(group int)) {
	groups := map[int]struct{}{}
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			break // a line that is cut short names another group
		}
		line = strings.TrimSuffix(line, "\n")
		if len(line) < 2 {
			continue
		}
		group, err := strconv.Atoi(line[1:])
		if err != nil || group < 2 {
			continue
		}
		if line[0] == '+' {
			groups[group] = struct{}{}
		} else {
			delete(groups, group)
		}
	}
	for group := range groups {
		kill(group)
	}
}

// Guard is a running guard process. It is safe for concurrent use.
type Guard struct {
	mu     sync.Mutex
	groups map[int]struct{}
	cmd    *exec.Cmd
	pipe   io.WriteCloser
	closed bool
}

// Start starts a guard for this process. Where there is none to be had (see [Supported]) it
// returns a Guard that does nothing.
func Start() (*Guard, error) {
	g := &Guard{groups: map[int]struct{}{}}
	if !Supported {
		return g, nil
	}
	return g, g.launch()
}

func (g *Guard) launch() error {
	cmd := exec.Command(selfPath)
	cmd.Env = []string{marker + "=1"}
	cmd.SysProcAttr = ownSession()
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("starting the guard process: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the guard process: %w", err)
	}
	g.cmd, g.pipe = cmd, pipe
	return nil
}

// Add has the process group killed when this process ends.
func (g *Guard) Add(group int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.groups[group] = struct{}{}
	return g.tell("+" + strconv.Itoa(group) + "\n")
}

// Remove takes the group back: it must not have been reaped yet, or its number may be another's.
func (g *Guard) Remove(group int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.groups, group)
	return g.tell("-" + strconv.Itoa(group) + "\n")
}

// tell writes to the guard; one that has died is replaced and told everything anew.
func (g *Guard) tell(line string) error {
	if !Supported || g.closed {
		return nil
	}
	if _, err := io.WriteString(g.pipe, line); err == nil {
		return nil
	}
	g.reap()
	if err := g.launch(); err != nil {
		return err
	}
	var all strings.Builder
	for group := range g.groups {
		fmt.Fprintf(&all, "+%d\n", group)
	}
	if _, err := io.WriteString(g.pipe, all.String()); err != nil {
		return fmt.Errorf("telling the guard process: %w", err)
	}
	return nil
}

func (g *Guard) reap() {
	_ = g.pipe.Close() // the guard ends with it
	_ = g.cmd.Wait()   // its status says nothing
}

// Close ends the guard, which kills the groups that are left. It is idempotent.
func (g *Guard) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.cmd == nil {
		return
	}
	g.closed = true
	g.reap()
}
