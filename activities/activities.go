// Package activities holds what a job's workflows have done in the world: Plan finds the items and
// cuts them into batches, Process runs the handler over one batch, Commit records which parts
// count, and Finish turns them into the output.
//
// None of them passes items through Temporal: they exchange references to ranges of the input and
// to objects of the job's store.
package activities

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"path"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/timers"
	"go.temporal.io/sdk/temporal"
)

// Options are what the activities need of their worker.
type Options struct {
	// Access opens inputs and stores. Required; the caller closes it.
	Access *store.Access
	// Handler runs the calls. Nil where the worker serves only Plan, Commit and Finish.
	Handler Handler
	// Stdin is the input "-"; nil where there is none.
	Stdin io.Reader
	// Notice finds the stop that has reached a workflow; false where there is none to be found.
	// Nil means never.
	Notice func(ctx context.Context, workflowID, runID string) (job.StopNotice, bool)
	// Drain is how long a batch may go on once its worker stops. Default 30 s.
	Drain time.Duration
	// Alone says that no other process works for the pool: parts are then joined as they come.
	Alone bool
	// Slots gives each execution of Process its place, which it leaves when its calls are done and
	// only its part remains to be made durable. Default: no limit.
	Slots Slots
	// Watchdog looks after the timers of handlers that run in this process. Nil where they have none.
	Watchdog *timers.Watchdog
	// Limiter bounds the items that all executions together begin in a time. Nil: there is no limit.
	Limiter *Limiter
	// Places finds out where the batches that a workflow has given out run. Nil: it is not known.
	Places func(ctx context.Context, workflowID, runID string) ([]job.ActivityPlace, error)
	// Hooks are those that jobs can name.
	Hooks map[string]Hook
	// Worker names the worker in the results of its batches.
	Worker string
	// Stop asks for the stop of a job, for handlers that want it.
	Stop func(ctx context.Context, jobName string, stop job.Stop) error
	// Observer is told what the executions of Process do. Default: nobody.
	Observer Observer
}

// Activities is registered with a worker as a whole. It is safe for concurrent use.
type Activities struct {
	opts    Options
	buffers sync.Pool // *chunkBuffers

	mu       sync.Mutex
	planners map[string]*planner // by run: where its last page ended
	tables   map[string]*Table   // by key: source tables are never changed once written
	early    *early              // nil where no parts are being joined
	stdin    *stdinReader        // nil until the standard input is asked for
}

// New returns the activities of a worker. Close frees what they hold between calls.
func New(o Options) *Activities {
	if o.Drain == 0 {
		o.Drain = 30 * time.Second
	}
	if o.Slots == nil {
		o.Slots = anySlot{}
	}
	if o.Observer == nil {
		o.Observer = unobserved{}
	}
	return &Activities{
		opts: o, planners: map[string]*planner{}, tables: map[string]*Table{},
		buffers: sync.Pool{New: func() any { return &chunkBuffers{} }},
	}
}

// Close frees the readers that Plan keeps open between pages, and gives up what Finish has not done.
func (a *Activities) Close() {
	a.setEarly(nil).giveUp()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.planners {
		p.close()
	}
	clear(a.planners)
	if a.stdin != nil {
		a.stdin.close()
	}
}

// Ref says which data a job run owns.
type Ref struct {
	Job string `json:"job"`
	// Run is the first run ID of the job's chain of runs: everything that the chain writes lies
	// below it in the store.
	Run   string `json:"run"`
	Store string `json:"store"`
	// Sources is the key of the source table in the store; empty before the first page.
	Sources string `json:"sources,omitempty"`
}

// Keys of the objects of a run.
const currentKey = "CURRENT"

func (r Ref) sourcesKey(token string) string  { return path.Join(r.Run, "sources-"+token+".json") }
func (r Ref) manifestKey(token string) string { return path.Join(r.Run, "manifests", token+".jsonl") }
func (r Ref) doneKey() string                 { return path.Join(r.Run, "DONE") }

// newToken is unique to an execution, so that no two ever write the same key: 64 random bits.
func newToken() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand
	return hex.EncodeToString(b[:])
}

func permanent(kind string, err error) error {
	return temporal.NewNonRetryableApplicationError(err.Error(), kind, err)
}

// storeError makes an error of the store permanent where no repetition can mend it.
func storeError(kind string, err error) error {
	var decided *temporal.ApplicationError
	if errors.As(err, &decided) && decided.NonRetryable() {
		return decided // however deep: only at the top does it keep the server from repeating
	}
	var fenced *store.FencedError
	var corrupt *store.CorruptError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &fenced):
		return permanent(job.ErrorFenced, err)
	case errors.As(err, &corrupt):
		return permanent(job.ErrorCorrupt, err)
	case store.Permanent(err):
		return permanent(kind, err)
	}
	return err
}
