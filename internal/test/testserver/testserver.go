// Package testserver starts Temporal servers for tests. A server is a process of its own: programs of tests that do not
// link it are built in a third of the time and start in a third of the time, which those do that serve as children of a
// worker; and the race detector, under which a server takes ten times as long, sees the same of stint's own code.
package testserver

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// Namespace is the one in which tests work.
const Namespace = "default"

// Server is a server in a process of its own, which ends with this one.
type Server struct {
	address string
	process *exec.Cmd
	alive   io.Closer // the server ends when this is closed
}

// program is the server's program, which lies in the cache of builds: "go run" links it once for all tests, and again
// after a change. The run that links it prints a path that is gone when the run ends: the next one prints that in the
// cache.
var program = sync.OnceValues(func() (path string, err error) {
	for range 2 {
		cmd := exec.Command("go", "run", "-exec", "echo", "github.com/stint-run/stint/internal/test/testserver/serve")
		cmd.Stderr = os.Stderr
		said, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("building the test server: %w", err)
		}
		path = strings.TrimSpace(string(said))
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("the test server is not in the cache of builds: there is no %s", path)
})

// Start starts a server with its state in memory. The caller stops it.
func Start(context.Context) (*Server, error) {
	path, err := program()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path)
	cmd.Stderr = os.Stderr
	alive, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the test server: %w", err)
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("the test server has ended: %w", cmp.Or(cmd.Wait(), err))
	}
	return &Server{address: strings.TrimSpace(address), process: cmd, alive: alive}, nil
}

// Address returns where the server listens.
func (s *Server) Address() string { return s.address }

// Stop ends the server, and returns when its process has ended.
func (s *Server) Stop() {
	_ = s.alive.Close()
	_ = s.process.Wait()
}
