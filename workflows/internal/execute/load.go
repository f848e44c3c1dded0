package execute

import (
	"time"

	"github.com/stint-run/stint/internal/wire"
	"go.temporal.io/sdk/workflow"
)

// TaskLoad counts what a workflow task of a leg sends: the items that it accepts, which the server gets once more, the inputs of
// activities, and answers. More than [wire.MaxTask] waits for a later task: Temporal ends a workflow whose task sends 4 MB. One
// payload alone is always sent; it is at most [wire.MaxPayload].
type TaskLoad struct {
	ctx     workflow.Context
	length  int       // of the history, when the task began
	at      time.Time // when that was
	bytes   int
	renewed bool // by a timer, which brings a later task
	armed   bool
}

// NewTaskLoad returns the load of the workflow's present task.
func NewTaskLoad(ctx workflow.Context) *TaskLoad { return &TaskLoad{ctx: ctx} }

// look begins to count anew if this is another task than before.
func (t *TaskLoad) look() {
	length, at := workflow.GetInfo(t.ctx).GetCurrentHistoryLength(), workflow.Now(t.ctx)
	if length == t.length && at.Equal(t.at) && !t.renewed {
		return
	}
	t.length, t.at, t.bytes, t.renewed = length, at, 0, false
}

// Fits reports whether the present task can send so many more bytes.
func (t *TaskLoad) Fits(n int) bool {
	t.look()
	return t.bytes == 0 || t.bytes+n <= wire.MaxTask
}

// Add counts bytes that the present task sends.
func (t *TaskLoad) Add(n int) {
	t.look()
	t.bytes += n
}

// Take counts bytes that the present task sends, if they fit.
func (t *TaskLoad) Take(n int) bool {
	if !t.Fits(n) {
		return false
	}
	t.Add(n)
	return true
}

// Await returns when there is a task that sends as many bytes as size returns, and counts them. It returns an error if the context is
// cancelled before.
func (t *TaskLoad) Await(ctx workflow.Context, size func() int) error {
	for !t.Take(size()) {
		t.arm()
		if err := workflow.Await(ctx, func() bool { return t.Fits(size()) }); err != nil {
			return err
		}
	}
	return nil
}

// arm makes sure that there is another task soon.
func (t *TaskLoad) arm() {
	if t.armed {
		return
	}
	t.armed = true
	workflow.Go(t.ctx, func(ctx workflow.Context) {
		_ = workflow.NewTimer(ctx, time.Millisecond).Get(ctx, nil)
		t.armed, t.renewed = false, true
	})
}
