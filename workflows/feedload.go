package workflows

import (
	"encoding/json"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/protocol"
	"github.com/stint-run/stint/internal/stages"
	"github.com/stint-run/stint/internal/text"
	"go.temporal.io/sdk/workflow"
)

// taskLoad counts what a workflow task of a leg sends: the items that it accepts, which the server gets once more, the inputs of
// activities, and answers. More than [protocol.MaxTask] waits for a later task: Temporal ends a workflow whose task sends 4 MB. One
// payload alone is always sent; it is at most [protocol.MaxPayload].
type taskLoad struct {
	ctx     workflow.Context
	length  int       // of the history, when the task began
	at      time.Time // when that was
	bytes   int
	renewed bool // by a timer, which brings a later task
	armed   bool
}

// look begins to count anew if this is another task than before.
func (t *taskLoad) look() {
	length, at := workflow.GetInfo(t.ctx).GetCurrentHistoryLength(), workflow.Now(t.ctx)
	if length == t.length && at.Equal(t.at) && !t.renewed {
		return
	}
	t.length, t.at, t.bytes, t.renewed = length, at, 0, false
}

// fits reports whether the present task can send so many more bytes.
func (t *taskLoad) fits(n int) bool {
	t.look()
	return t.bytes == 0 || t.bytes+n <= protocol.MaxTask
}

// add counts bytes that the present task sends.
func (t *taskLoad) add(n int) {
	t.look()
	t.bytes += n
}

// take counts bytes that the present task sends, if they fit.
func (t *taskLoad) take(n int) bool {
	if !t.fits(n) {
		return false
	}
	t.add(n)
	return true
}

// await returns when there is a task that sends as many bytes as size returns, and counts them. It returns an error if the context is
// cancelled before.
func (t *taskLoad) await(ctx workflow.Context, size func() int) error {
	for !t.take(size()) {
		t.arm()
		if err := workflow.Await(ctx, func() bool { return t.fits(size()) }); err != nil {
			return err
		}
	}
	return nil
}

// arm makes sure that there is another task soon.
func (t *taskLoad) arm() {
	if t.armed {
		return
	}
	t.armed = true
	workflow.Go(t.ctx, func(ctx workflow.Context) {
		_ = workflow.NewTimer(ctx, time.Millisecond).Get(ctx, nil)
		t.armed, t.renewed = false, true
	})
}

// inputSize is the most bytes that the input of an execution has. fixed are those of what all inputs of the leg have.
func inputSize(in *activities.ProcessInput, fixed int) int {
	size := fixed + in.Items.Size() + in.Batch.From.Size()
	if v := in.Verdict; v != nil {
		size += text.JSONSize(v.Kind) + text.JSONSize(v.Error.Type) + text.JSONSize(v.Error.Message) + text.JSONSize(v.Error.Stack)
	}
	return size
}

// fixedSize is the most bytes that the inputs of a leg's executions have beside items, parts and verdicts.
func fixedSize(in FeedLegInput, steps stages.Program) int {
	const numbers = 4 << 10
	stage := 0
	for i := range steps {
		stage = max(stage, jsonSize(&steps[i].Stage))
	}
	return numbers + stage + jsonSize(in.Ref) + text.JSONSize(in.Spec.Format) + text.JSONSize(in.Spec.OnError)
}

// jsonSize is how many bytes a value has as JSON.
func jsonSize(v any) int {
	data, err := json.Marshal(v)
	if err != nil {
		return 0 // it could not be sent, either
	}
	return len(data)
}

// partSize is the most bytes that a part which is not in the store has in the inputs of the steps that read it.
var partSize = (&protocol.Part{Inline: &protocol.Lines{Results: make([]byte, stages.MaxInline)}}).Size() + 4<<10
