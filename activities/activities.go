// Package activities holds the activities of jobs: Plan finds the items and cuts them into batches,
// Process runs the handler over one batch, Commit records which parts count, and Finish turns them
// into the output. Items do not pass through Temporal: activities exchange references to ranges of the
// input and to objects of the job's store.
//
//   - activities.go: what they need of their worker; wire.go: what they are given and return
//   - plan.go, commit.go, finish.go, redrive_activities.go, feed_activities.go, report.go: thin methods over the packages
//     inputs, ledger, outputs, redrive and feeds
//   - process.go, execution.go: a batch; lanes.go: its calls at once; line.go: the order of its items;
//     outcomes.go: what becomes of them; source.go, sink.go: what it reads and writes; stride.go: its pace
//   - hook.go, locate.go, presence.go: hooks, where batches run, who serves pools; cameback.go: executions that were given up and are alive
//   - carryout.go: how an activity is carried out whose files may hang; thrift.go, news.go: how often there are heartbeats, and what they report;
//     left.go: Go calls that do not end
package activities

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/calls"
	"github.com/stint-run/stint/internal/inputs"
	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/outputs"
	"github.com/stint-run/stint/internal/watchdog"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Options are what the activities need of their worker.
type Options struct {
	// Access opens inputs and stores. Required; the caller closes it.
	Access ledger.Access
	// Handler runs the calls. Nil if the worker serves only Plan, Commit and Finish.
	Handler calls.Handler
	// Stdin is the input "-"; nil if there is none.
	Stdin io.Reader
	// Notice finds the stop that has reached a workflow; false if there is none.
	// Nil means never.
	Notice func(ctx context.Context, workflowID, runID string) (wire.StopNotice, bool)
	// Drain is how long a batch may continue once its worker stops. Default 30 s.
	Drain time.Duration
	// Patience is how long one operation on files may take before the activity that waits for it is given up.
	// Default 2 min.
	Patience time.Duration
	// Joiner joins parts while their jobs run; Close closes it. Default: [outputs.NoJoiner].
	Joiner outputs.Joiner
	// Slots gives each execution of Process its place, which it leaves when its calls are done and
	// only its part remains to be made durable. Default: no limit.
	Slots calls.Slots
	// Watchdog looks after the timers of handlers that run in this process. Nil if they have none.
	Watchdog *watchdog.Watchdog
	// Limiter bounds the items that all executions together begin in a time. Nil: there is no limit.
	Limiter *calls.Limiter
	// Takers finds out which workers took some of a workflow's executions, those that have ended included. Nil: it is unknown.
	Takers func(ctx context.Context, workflowID, runID string, activities []string) ([]wire.ActivityPlace, error)
	// Places finds out where the batches that a workflow has given out run. Nil: it is unknown.
	Places func(ctx context.Context, workflowID, runID string) ([]wire.ActivityPlace, error)
	// Hooks are those that jobs can name.
	Hooks map[string]Hook
	// Worker names the worker in the results of its batches.
	Worker string
	// Capacity returns what the worker runs at once, at present. Nil: it is not known.
	Capacity func() wire.Capacity
	// Pending asks a leg of a feed for a piece of what it has not committed: see [wire.DecodePending].
	Pending func(ctx context.Context, workflowID, runID string, offset int) ([]byte, error)
	// Pollers counts the workers that poll for the batches of a pool. Nil: it is not known.
	Pollers func(ctx context.Context, pool string) (int, error)
	// Stop asks for the stop of a job, for handlers that want it.
	Stop func(ctx context.Context, jobName string, stop job.Stop) error
	// CameBack reports to a workflow that an execution is alive which the server has given up. Nil: nobody hears of it.
	CameBack func(ctx context.Context, workflowID, runID string, back wire.CameBack) error
	// Observer gets what the executions of Process do. Default: none.
	Observer calls.Observer
}

// Activities is registered with a worker as a whole. It is safe for concurrent use.
type Activities struct {
	opts       Options
	inputs     *inputs.Inputs
	buffers    buffers
	goroutines calls.Goroutines
	fit        calls.Fit
	brake      calls.Brake
	news       news
	left       leftCalls
	closed     chan struct{} // by Close
	close      func()
}

// New returns the activities of a worker. Close frees what they hold between calls.
func New(o Options) *Activities {
	if o.Drain == 0 {
		o.Drain = 30 * time.Second
	}
	if o.Patience == 0 {
		o.Patience = 2 * time.Minute
	}
	if o.Slots == nil {
		o.Slots = calls.AnySlot{}
	}
	if o.Observer == nil {
		o.Observer = calls.Unobserved{}
	}
	if o.Capacity == nil {
		o.Capacity = func() wire.Capacity { return wire.Capacity{} }
	}
	if o.Joiner == nil {
		o.Joiner = outputs.NoJoiner{}
	}
	closed := make(chan struct{})
	return &Activities{
		opts: o, inputs: inputs.New(o.Access, o.Stdin), closed: closed, close: sync.OnceFunc(func() { close(closed) }),
	}
}

// Close frees the readers that Plan keeps open between pages, and gives up the joining of parts that
// Finish has not taken over.
func (a *Activities) Close() {
	a.close()
	a.opts.Joiner.Close()
	a.inputs.Close()
}
