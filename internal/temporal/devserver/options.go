// Package devserver runs a Temporal server and its web UI inside this process, with SQLite underneath: for a single
// machine, for tests, and for trying things out. It listens on the loopback interface unless the options say otherwise,
// and has no authentication.
//
// A server keeps its state in a directory, or in memory. The state survives the death of the process at any moment. One
// process at a time holds a directory; the hold dies with the process.
//
// A program that is built with the tag noserver has none: [Linked] is false, and Start an error.
package devserver

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"go.temporal.io/api/enums/v1"
)

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
