//go:build race

package testserver

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Server is a server in a process of its own, which ends with this one.
type Server struct {
	address string
	process *exec.Cmd
	alive   io.Closer // the server ends when this is closed
}

// Start starts a server with its state in memory. The caller stops it.
func Start(context.Context) (*Server, error) {
	program := os.Getenv("STINT_TEST_SERVER")
	if program == "" {
		return nil, errors.New("STINT_TEST_SERVER is not set: 'make race' builds that program, internal/test/testserver/serve, and names it")
	}
	cmd := exec.Command(program)
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
