package inputs

import (
	"io"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/internal/trap"
	"github.com/stint-run/stint/internal/wire"
)

// Inputs opens the inputs of jobs for one worker. It is safe for concurrent use.
type Inputs struct {
	access   ledger.Access
	standard io.Reader // the standard input; nil if there is none

	mu         sync.Mutex
	planners   map[string]*planner       // by run: where its last page ended
	tables     map[string]*Table         // by key: source tables are never changed once written
	tableBytes int                       // of all tables, as they lie in their stores
	bundles    map[*wire.Source][]member // of bundles that batches were read of lately
	seen       map[string]store.Input    // by URL: files that are what they were, although their inode or change is another
	stdin      *stdinSpool               // nil until the standard input is asked for
}

// New returns the inputs that access reaches. stdin is the input "-"; nil if there is none. The
// caller must close them.
func New(access ledger.Access, stdin io.Reader) *Inputs {
	return &Inputs{access: access, standard: stdin, planners: map[string]*planner{}, tables: map[string]*Table{}, bundles: map[*wire.Source][]member{}, seen: map[string]store.Input{}}
}

// Close frees the readers that are kept open between pages.
func (n *Inputs) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for run := range n.planners {
		n.dropPlanner(run)
	}
	if n.stdin != nil {
		n.stdin.reader.close()
	}
}

// What a worker remembers of jobs between activities is bounded.
const (
	maxCached     = 64 // planners, tables
	maxTableBytes = 64 << 20
	maxBundles    = 16 // lists of inputs, some hundred KiB each
)

// membersOf returns the inputs of a bundle, from memory if another batch of it was read lately.
func (n *Inputs) membersOf(t *Table, s *wire.Source) ([]member, error) {
	n.mu.Lock()
	members := n.bundles[s]
	n.mu.Unlock()
	if members != nil {
		return members, nil
	}
	members, err := t.members(s)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.bundles) >= maxBundles {
		clear(n.bundles)
	}
	n.bundles[s] = members
	return members, nil
}

// plannerIdle is how long a planner is kept for its next page: another worker may plan the rest of the job. One
// that is needed after all opens its input again, and reads a compressed one again.
const plannerIdle = 30 * time.Minute

// takePlanner returns what is kept of the run's planning; nil if there is nothing. A planner of another
// source table than the accepted one is closed: its attempt at the first page was not the one that counts.
func (n *Inputs) takePlanner(ref wire.Ref) *planner {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.planners[ref.Run]
	delete(n.planners, ref.Run)
	if p == nil {
		return nil
	}
	p.idle.Stop()
	if p.sources != ref.Sources {
		p.Close()
		return nil
	}
	return p
}

func (n *Inputs) keepPlanner(run string, p *planner) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dropPlanner(run) // of another attempt
	for other := range n.planners {
		if len(n.planners) < maxCached {
			break
		}
		n.dropPlanner(other)
	}
	n.planners[run] = p
	p.idle = trap.After(plannerIdle, "closing an idle planner", nil, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.planners[run] == p {
			n.dropPlanner(run)
		}
	})
}

// dropPlanner closes the kept planner of a run, if there is one. The caller holds the lock.
func (n *Inputs) dropPlanner(run string) {
	if p := n.planners[run]; p != nil {
		p.idle.Stop()
		p.Close()
		delete(n.planners, run)
	}
}
