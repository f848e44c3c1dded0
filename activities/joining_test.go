package activities

import (
	"bytes"
	"testing"

	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// recordingJoiner notes what the activities do with it.
type recordingJoiner struct {
	outputs.NoJoiner
	begun  []string // runs
	added  int      // pieces of results
	done   []wire.Entry
	ends   int // of parts
	closed bool
}

func (j *recordingJoiner) Begin(ref wire.Ref, _ job.Spec)      { j.begun = append(j.begun, ref.Run) }
func (j *recordingJoiner) Part(string, int64) outputs.PartJoin { return recordedPart{j} }
func (j *recordingJoiner) Close()                              { j.closed = true }

type recordedPart struct{ of *recordingJoiner }

func (recordedPart) Joins() bool         { return true }
func (p recordedPart) Done(e wire.Entry) { p.of.done = append(p.of.done, e) }
func (p recordedPart) Close()            { p.of.ends++ }
func (p recordedPart) Add(lines []byte) []byte {
	p.of.added++
	return lines[:0]
}

// Parts are joined early only if the job has more pages than one, and begins with its first item.
func TestPlan_BeginsToJoin(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(1000))
	f.spec.BatchItems = 50
	j := &recordingJoiner{}
	f.serve(&callstest.Handler{}, Options{Joiner: j})
	first, _ := f.page(3)
	require.Equal(t, []string{"run-1"}, j.begun)
	entries := f.processAll(first)
	require.Equal(t, entries, j.done)
	head := f.commit(nil, entries...)
	f.plan()
	f.newRun("run-2")
	f.page(3, head)
	require.Equal(t, []string{"run-1"}, j.begun, "the next run continues from items that are done")
	f.newRun("run-3")
	f.plan()
	require.Equal(t, []string{"run-1"}, j.begun, "one page: there is no hurry")
	f.acts.Close()
	require.True(t, j.closed)
}

// A batch that fails gives its part up.
func TestProcess_FailedBatchHoldsNothing(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(1000))
	f.spec.BatchItems = 50
	handler := &callstest.Handler{Size: calls.CallSize{Items: 10}}
	handler.Each = func(c *calls.Call, item calls.Item) {
		if item.Ordinal == 25 {
			f.write("in.jsonl", jobtest.Lines(999)) // it is found at the end
		}
		c.Answer.Line(bytes.Repeat([]byte("1"), writeAt/10)) // each call's results go to the sink
	}
	j := &recordingJoiner{}
	f.serve(handler, Options{Joiner: j})
	batches, _ := f.page(3)
	_, err := f.acts.Process(t.Context(), f.input(batches[0]))
	jobtest.RequireType(t, err, job.ErrorChanged)
	require.Equal(t, 5, handler.Calls())
	require.Equal(t, 5, j.added)
	require.Equal(t, 1, j.ends)
	require.Empty(t, j.done)
}
