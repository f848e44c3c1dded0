//go:build !noserver

package devserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"

	"github.com/stint-run/stint/internal/base/disk"
	"github.com/stint-run/stint/internal/base/trap"
)

const (
	// readyTimeout bounds how long Start waits for the server to answer.
	readyTimeout = 30 * time.Second
	// callsTimeout is how long Stop waits for calls between the server's services before it cuts them off: a call that
	// reports a cancelled activity to an ended worker takes 10 s.
	callsTimeout = 100 * time.Millisecond
	// stopTimeout bounds how long Stop waits for the server's services to end.
	stopTimeout = 10 * time.Second
)

// Server is a running Temporal server. Its methods may be called by any number of goroutines.
type Server struct {
	address   string
	namespace string
	database  *config.SQL
	logger    *logger
	bound     []net.Listener
	hold      *lock
	ui        *ui
	temporal  temporal.Server
	kept      connections
	stop      sync.Once
	endWatch  func() // of the disk; nil if nothing is watched
}

// Start starts a server. When it returns, the frontend answers and the namespace can be used. The caller stops the
// server with Stop.
//
// Errors that callers may want to distinguish: *HeldError (another process has the directory), *VersionError (the state
// is of another server version) and *PortError (a port that was asked for by number is taken).
//
// The first server of a process names the program for the SDK's workers in it
// (worker.SetBinaryChecksum).
//
// The context bounds the start, not the life of the server.
func Start(ctx context.Context, o Options) (*Server, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("server options: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("starting the Temporal server: %w", err)
	}
	nameBinary()
	s := &Server{namespace: o.Namespace, logger: newLogger(o.Logger)}
	if err := s.start(ctx, o); err != nil {
		s.Stop()
		return nil, fmt.Errorf("starting the Temporal server: %w", fullOr(o.Dir, disk.Of, err))
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, o Options) error {
	if o.Dir != "" {
		if err := checkFileLimit(fileLimit()); err != nil {
			return err
		}
	}
	if err := checkReach(net.DialTimeout); err != nil {
		return err
	}
	database, err := s.openState(o)
	if err != nil {
		return err
	}
	s.watchDisk(o)
	uiListener, on, err := s.listen(o)
	if err != nil {
		return err
	}
	s.address = reachable(on[primitives.FrontendService])
	s.database = database
	if err := makeNamespace(database, o); err != nil {
		return fmt.Errorf("making namespace %q: %w", o.Namespace, err)
	}
	if err := s.serve(on, o); err != nil {
		return err
	}
	if uiListener != nil {
		if s.ui, err = serveUI(uiListener, s.address, o); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := waitReady(ctx, s.address, o.Namespace); err != nil {
		return err
	}
	s.logger.enter(running)
	if s.hold != nil {
		return s.hold.announce(s.address, s.UIURL())
	}
	return nil
}

// watchDisk reports when the disk of the state directory gets full. A log on that disk could not say it.
func (s *Server) watchDisk(o Options) {
	if o.Dir == "" {
		return
	}
	quit, ended := make(chan struct{}), make(chan struct{})
	failed := func(err error) { s.logger.to.Error("the disk is not watched any more", "error", err) }
	trap.Watched("watching the disk", failed, func() {
		defer close(ended)
		watchRoom(o.Dir, disk.Of, o.Note, quit)
	})
	s.endWatch = func() { close(quit); <-ended }
}

// openState locks and prepares the state directory, if there is one.
func (s *Server) openState(o Options) (*config.SQL, error) {
	if o.Dir == "" {
		return memoryConfig(), nil
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := checkRoom(dir, disk.Of); err != nil {
		return nil, err
	}
	if s.hold, err = lockDir(dir, o.Namespace, o.For); err != nil {
		return nil, err
	}
	if err := prepare(dir); err != nil {
		return nil, err
	}
	return fileConfig(dir, o.PowerSafe), nil
}

// listen binds all ports before anything is started, so that a port that is taken is an error and nothing else: first
// those that were asked for by number, lest another one be given them. The internal ones are on the loopback interface.
func (s *Server) listen(o Options) (forUI net.Listener, on listeners, err error) {
	on = listeners{}
	bindUI := func() {
		if err == nil && o.UIPort != NoUI {
			forUI, err = s.bind(uiWhat, o.IP, o.UIPort, o.PreferUIPort)
		}
	}
	bindFrontend := func() {
		if err == nil {
			on[primitives.FrontendService], err = s.bind(frontendWhat, o.IP, o.Port, o.PreferPort)
		}
	}
	if o.Port == AnyPort {
		bindUI()
		bindFrontend()
	} else {
		bindFrontend()
		bindUI()
	}
	for name := range modules {
		if err == nil && on[name] == nil {
			on[name], err = s.bind("Temporal "+string(name), "127.0.0.1", AnyPort, 0)
		}
	}
	return forUI, on, err
}

// bind binds a port that Stop closes.
func (s *Server) bind(what, ip string, port, prefer int) (net.Listener, error) {
	l, err := listen(what, ip, port, prefer)
	if err != nil {
		return nil, err
	}
	s.bound = append(s.bound, l)
	return l, nil
}

func (s *Server) serve(on listeners, o Options) error {
	return guard(s.logger, func() error {
		server, err := newTemporal(on, s.database, o, s.logger, &s.kept)
		if err != nil {
			return err
		}
		s.temporal = server
		return server.Start()
	})
}

// Address returns the host:port at which a process on this machine reaches the frontend.
func (s *Server) Address() string { return s.address }

// UIURL returns the URL of the web UI for a browser on this machine; "" without one.
func (s *Server) UIURL() string {
	if s.ui == nil {
		return ""
	}
	return s.ui.url
}

// Namespace returns the namespace that the server was started with.
func (s *Server) Namespace() string { return s.namespace }

// Stop ends the server, closes its ports, and gives the state directory back. It takes at most about ten seconds, and
// may be called more than once. Clients and workers are best stopped before it.
func (s *Server) Stop() { s.stop.Do(s.shutdown) }

func (s *Server) shutdown() {
	s.logger.enter(stopping)
	if s.endWatch != nil {
		s.endWatch()
	}
	if s.ui != nil {
		s.ui.stop()
	}
	if s.temporal != nil {
		s.endServices()
	}
	s.kept.close()
	for _, l := range s.bound {
		_ = l.Close()
	}
	if s.database != nil {
		if err := closeDatabase(s.database); err != nil {
			s.logger.to.Warn("closing the database", "error", err)
		}
	}
	if s.hold != nil {
		s.hold.release()
	}
}

// endServices ends the server's services. Calls between them that take too long are cut off.
func (s *Server) endServices() {
	ended := trap.Go("stopping the server", s.temporal.Stop)
	for _, patience := range []time.Duration{callsTimeout, stopTimeout} {
		select {
		case err := <-ended:
			if defect := (*trap.DefectError)(nil); errors.As(err, &defect) {
				s.logger.to.Error("stopping the server", "error", err)
			}
			return
		case <-time.After(patience):
			s.kept.close()
		}
	}
}
