// Package activities holds the activities of jobs: Plan finds the items and cuts them into batches,
// Process runs the handler over one batch, Commit records which parts count, and Finish turns them
// into the output. Items do not pass through Temporal: activities exchange references to ranges of the
// input and to objects of the job's store.
//
//   - activities.go: what they need of their worker (internal/wire has what they are given and return)
//   - plan.go, finish.go, redrive.go, feed.go, loop.go: thin methods over the packages
//     inputs, ledger, outputs, redrive, feeds and loops
//   - process.go, execution.go: a batch; lanes.go: its calls at once; line.go: the order of its items;
//     outcomes.go: what becomes of them; source.go: what it reads and writes
//   - hook.go, presence.go: hooks, where batches run, who serves pools; cameback.go: executions that were given up and
//     are alive
//   - carryout.go: how an activity is carried out whose files may hang; heartbeat.go: how often there are heartbeats,
//     and what they report
//
// # What they do
//
//   - Plan expands the inputs, writes the source table (size, modification time, format, CSV header of each; small
//     inputs that follow one another are one source, decision 016), and cuts from where the last page ended.
//     Automatic batches aim at five seconds of wall time of one slot, with as many calls at once as it makes, and
//     get smaller towards the end. An input that cannot be read from the middle (.gz, .zst, stdin) is copied once
//     into the store, in chunks of 16 MiB; what a first page that fails has copied is removed at once. A page of
//     stdin ends with what has come (decision 037). A resumed job plans the items without an outcome in earlier
//     runs.
//   - Process runs one batch: it checks that the input is as it was planned, reads the range, makes calls, and
//     writes results and error records to new objects, named with a random token. It returns early with a rest when
//     the job stops, when its worker drains, when its job should slow down, and after a minute.
//   - Commit writes a leg's manifest: the accepted parts, with ranges, counts and checksums. Manifests name those
//     before them, so that the job carries only their heads.
//   - Finish checks the books (the accepted ranges tile the items and, if their source has bytes, the bytes),
//     verifies every checksum, joins the parts, and publishes the output while the store still names this run as the
//     current one; then it removes what its run, and those that it continues or takes the place of, have left. Every
//     step can be repeated. In stint run, where one process does all the work, the parts are joined as they come,
//     and Finish continues from there if the accepted parts are those that were joined (decision 004).
//
// A redrive is a further run of a completed job with its own activities, PlanRedrive and FinishRedrive: the first
// copies the failed items from the error records into the store and cuts that into batches, the second merges their
// outcomes into the output and writes manifests for the merged state (decision 012).
//
// A feed's items come with their batches, and its outcomes, up to 64 KiB a batch, go back with the answers, so that a
// batch needs no store. It has its own activities: CommitFeed gathers what was accepted into parts, lists the items
// that were discarded, and writes what a stop leaves unfinished to spills; PlanFeed begins a feed, and finds what
// earlier runs have left (decision 024). Finish and redrive are those of other jobs.
//
// Process reads its items from a source and writes their outcomes to a sink (source.go). A range
// of an input, the failed items of a redrive and the items of a feed are sources; a part in the store is a sink, and
// the answer of a feed's batch is one. A source without bytes leaves offset and length at 0: the books then tile
// ordinals only.
//
// Between the two, a batch's calls are made in lanes (activities/lanes.go), as many at once as its slot has places for.
// They are goroutines, which are used again for other lanes and which run Go handlers, too; a lane whose handler does
// not return continues in another goroutine. They take their items from the line (line.go), which reads them in blocks,
// hands them out in assignments, and records outcomes in order. Outcomes behind an unfinished item are held back, up to
// 32 MiB a batch and 128 MiB a slot; then nothing more is begun. An item that is called again later, because it has
// failed or its handler asks for that, waits outside of the lanes (waiting.go); what it has behind it, tries and waits,
// goes on with the batch's rest (decision 043). If the batch ends while such an item has no outcome, what was held back
// is part of the rest, runs again, and counts as repeated (decision 021).
//
// Only a part that an accepted result names is in a manifest, and only an object that an accepted commit names is a
// manifest: a worker that was presumed dead and wakes up cannot spoil the output.
package activities

import (
	"cmp"
	"context"
	"io"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/internal/data/reuse"
	"github.com/stint-run/stint/internal/data/unique"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/traces"
	"github.com/stint-run/stint/internal/run/watchdog"
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
	// Notice finds the stop that has reached a workflow; false if there is none. Nil means never.
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
	// Takers finds out which workers took some of a workflow's executions, those that have ended included. Nil: it is
	// unknown.
	Takers func(ctx context.Context, workflowID, runID string, activities []string) ([]wire.ActivitySlot, error)
	// Places finds out where the batches that a workflow has given out run. Nil: it is unknown.
	Places func(ctx context.Context, workflowID, runID string) ([]wire.ActivitySlot, error)
	// Hooks are those that jobs can name.
	Hooks map[string]Hook
	// Tracer makes spans of executions and their calls. Nil: nothing does.
	Tracer *traces.Tracer
	// Worker names the worker in the results of its batches.
	Worker string
	// Version is that of the handler; empty: it is not known.
	Version string
	// Capacity returns what the worker runs at once, at present. Nil: it is not known.
	Capacity func() wire.Capacity
	// Pending asks a leg of a feed for a piece of what it has not committed: see [wire.DecodePending].
	Pending func(ctx context.Context, workflowID, runID string, offset int) ([]byte, error)
	// Pollers counts the workers that poll for the batches of a pool whose jobs follow a version of the logic. Nil: it is
	// not known.
	Pollers func(ctx context.Context, pool string, logic int) (int, error)
	// Stop asks for the stop of a job, for handlers that want it.
	Stop func(ctx context.Context, jobName string, stop job.Stop) error
	// Signal sends a signal to a workflow. Nil: nobody hears of an execution that the server has given up and that is
	// alive.
	Signal func(ctx context.Context, workflowID, runID, name string, arg any) error
	// Heartbeat sends an execution's heartbeat at once. Nil: it is held back for as long as the SDK does so.
	Heartbeat func(ctx context.Context, taskToken []byte, details ...any) error
	// Complete sends an execution's result. Nil: the SDK does.
	Complete func(ctx context.Context, taskToken []byte, result any, err error) error
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
	distrust   distrust
	indexes    reuse.Cache
	twins      unique.Cache
	progress   progress
	left       leftCalls
	closed     chan struct{} // by Close
	close      func()
}

// New returns the activities of a worker. Close frees what they hold between calls.
func New(o Options) *Activities {
	o.Drain, o.Patience = cmp.Or(o.Drain, 30*time.Second), cmp.Or(o.Patience, 2*time.Minute)
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
