// Package devserver runs a Temporal server and its web UI inside this process, with SQLite underneath: for a single
// machine, for tests, and for trying things out. It listens on the loopback interface unless the options say otherwise,
// and has no authentication.
//
// A server keeps its state in a directory, or in memory. The state survives the death of the process at any moment. One
// process at a time holds a directory; the hold dies with the process.
package devserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.temporal.io/api/enums/v1"
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

const (
	// AnyPort asks for a free port.
	AnyPort = -1
	// NoUI, as the port of the web UI, means that there is none.
	NoUI = 0

	// DefaultNamespace is the namespace of a server whose options name none.
	DefaultNamespace = "default"
	// DefaultRetention is how long closed workflows are kept unless the options say otherwise.
	DefaultRetention = 7 * 24 * time.Hour

	// minRetention is the shortest retention the server accepts for a namespace.
	minRetention = time.Hour
	maxPort      = 65535
)

// Options configure a server. The zero value is a server in memory, on a free port of the loopback interface, without a
// web UI.
type Options struct {
	// Dir is the state directory: database, lock and version. It is made, for its owner only, when it is missing. ""
	// keeps everything in memory.
	Dir string
	// IP is the address that the frontend and the web UI bind. Default 127.0.0.1. The server has no authentication:
	// whoever reaches this address can do everything.
	IP string
	// Port is the frontend's gRPC port, 1 to 65535. 0 or AnyPort: a free one.
	Port int
	// UIPort is the web UI's port, 1 to 65535. 0 (NoUI): no web UI. AnyPort: a free one.
	UIPort int
	// PreferPort is tried first when Port asks for a free one. 0: none. If it is in use, another one is used without a
	// message.
	PreferPort int
	// PreferUIPort is for UIPort what PreferPort is for Port.
	PreferUIPort int
	// Page answers requests for what is at PagePath and below it, in front of the web UI. Nil: the web UI does.
	Page http.Handler
	// PagePath is a path such as "/stint".
	PagePath string
	// PowerSafe makes every acknowledged change survive a loss of power (SQLite synchronous=full). Without it the state
	// survives the death of the process, kill -9 included, but the last changes may be lost with the machine.
	PowerSafe bool
	// NoPush keeps the server from pushing cancellations to workers, as most servers do: a running
	// activity gets its cancellation with its next heartbeat.
	NoPush bool
	// NoSystemWorker leaves out the worker that runs the server's own workflows, which is a tenth of a start: no schedule
	// starts anything, and there are no batch operations.
	NoSystemWorker bool
	// Namespace is made when it is missing. Default DefaultNamespace.
	Namespace string
	// Retention is how long a closed workflow is kept, at least one hour. Default DefaultRetention. It counts when the
	// namespace is made; a namespace that exists keeps its own.
	Retention time.Duration
	// SearchAttributes are registered when the namespace is made. Default: none.
	SearchAttributes map[string]enums.IndexedValueType
	// Lists are list filters of Temporal by a short path of the web UI, such as "/jobs", that leads to the list of what
	// the filter finds. Default: none.
	Lists map[string]string
	// For names what the server is started for, a job say, for those who find the directory held (see HolderInfo).
	// Default: "".
	For string
	// Note gets messages for people that cannot wait: that the disk of Dir is full, and that it has room again.
	// Another goroutine calls it, and not after Stop. Default: they are logged as errors.
	Note func(text string)
	// Logger receives what the server, its own workers and the web UI log. nil: errors go to standard error, everything
	// below is dropped.
	Logger *slog.Logger
}

// StateDir returns where a server of stint keeps its files below a state directory.
func StateDir(state string) string { return filepath.Join(state, "temporal") }

func (o Options) withDefaults() Options {
	o.IP = cmp.Or(o.IP, "127.0.0.1")
	o.Port = cmp.Or(o.Port, AnyPort)
	o.Namespace = cmp.Or(o.Namespace, DefaultNamespace)
	o.Retention = cmp.Or(o.Retention, DefaultRetention)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	if o.Note == nil {
		o.Note = func(text string) { o.Logger.Error(text) }
	}
	return o
}

// validate expects options with their defaults filled in.
func (o Options) validate() error {
	if _, err := netip.ParseAddr(o.IP); err != nil {
		return fmt.Errorf("%q is not an IP address", o.IP)
	}
	ports := []struct {
		name  string
		value int
		least int
	}{
		{"port", o.Port, AnyPort},
		{"web UI port", o.UIPort, AnyPort},
		{"preferred port", o.PreferPort, 0},
		{"preferred web UI port", o.PreferUIPort, 0},
	}
	for _, p := range ports {
		if p.value < p.least || p.value > maxPort {
			return fmt.Errorf("%s %d is outside %d to %d", p.name, p.value, p.least, maxPort)
		}
	}
	if o.Retention < minRetention {
		return fmt.Errorf("retention %v is below %v", o.Retention, minRetention)
	}
	return nil
}
