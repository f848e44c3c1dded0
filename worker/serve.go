package worker

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/calls"
	"github.com/stint-run/stint/internal/child"
)

// Serve makes a handler of a long-lived program: one process for each slot, started once, which
// answers one call after the other over the serve protocol (docs/protocol.md; python/stint.py
// implements it for Python). A process that dies, hangs or breaks the protocol is replaced by its
// slot's next incarnation, and its call is retried; results that it had sent are kept. Its environment
// is scrubbed (see Options.Env); unless that has a PYTHONPATH, it names a directory with Python's module stint.
func Serve(argv ...string) Handler {
	return Handler{
		name: "serve " + strings.Join(argv, " "), argv: argv,
		check: func(o Options) error {
			if _, err := o.runnable(argv); err != nil {
				return err
			}
			return o.checkCPUs()
		},
		open: func(s dependencies) (calls.Handler, service, error) {
			path, err := s.options.runnable(argv)
			if err != nil {
				return nil, nil, err
			}
			env, helper := s.options.childEnv(), pythonHelper{}
			if !s.options.setsPythonPath() {
				if helper, err = openPythonHelper(); err != nil {
					s.log.Warn("programs in Python need the helper beside them", "error", err)
				} else {
					env = append(env, "PYTHONPATH="+helper.dir)
				}
			}
			h := &host{dependencies: s, helper: helper, path: path, argv: argv, env: append(env, oneThread(s.options.Env)...)}
			return h.open()
		},
	}
}

// Calls of a program are cut so that each takes about a second, which bounds what a crash costs and
// how long a stop waits.
const (
	serveTarget = time.Second
	serveItems  = 1000
	serveBytes  = 1 << 20
	serveFirst  = 32
)

// host keeps a program running in each slot and makes its calls. It is safe for concurrent use.
type host struct {
	dependencies
	path string
	argv []string
	env  []string

	size     calls.CallSize
	oomKills func() int64  // of this control group, so far
	single   bool          // items are handed over one by one
	inner    calls.Handler // the Go handler that the process runs; nil for any other program
	children *child.Starter
	helper   pythonHelper
	pace     calls.Pace

	slots   sync.WaitGroup
	tasks   sync.WaitGroup // small requests on their way to the server
	closing chan struct{}
	once    sync.Once
}

func (h *host) open() (calls.Handler, service, error) {
	children, err := child.NewStarter(h.log)
	if err != nil {
		return nil, nil, err
	}
	h.roster.programs = true
	h.children, h.closing, h.oomKills = children, make(chan struct{}), child.OomKills
	h.size = h.options.callSize(0, serveBytes)
	if h.inner != nil && h.options.Concurrency == 1 {
		h.size = h.inner.CallSize()
	}
	if h.options.CallItems == oneItem && h.inner == nil {
		h.size.Items, h.single = 1, true
	}
	h.pace = h.options.callPace(serveTarget, serveFirst, serveItems)
	return h, h, nil
}

var errClosing = errors.New("the worker ends")

// Close ends all programs: it asks them to end, and kills those that do not.
func (h *host) Close() {
	h.once.Do(func() {
		close(h.closing)
		h.slots.Wait()
		h.tasks.Wait()
		h.children.Close()
		h.helper.Close()
	})
}

// PacedItems returns the items that CallSize settles at.
func (h *host) PacedItems(start, item float64) int {
	if h.size.Items > 0 {
		return h.size.Items
	}
	return h.pace.Settled(start, item)
}
