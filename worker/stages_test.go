package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
)

// record is an item of the pipelines below.
type record struct {
	N    int      `json:"n"`
	Seen []string `json:"seen,omitempty"`
}

// stageNamed is a handler that notes its name in each record. It fails records of which fail says so, and drops others.
func stageNamed(name string, fail, drop func(n int) bool) worker.Handler {
	return worker.Each(func(_ context.Context, r record) (record, error) {
		switch {
		case fail != nil && fail(r.N):
			return r, errors.New(name + " cannot")
		case drop != nil && drop(r.N):
			return r, worker.Drop
		}
		r.Seen = append(r.Seen, name)
		return r, nil
	})
}

func every(k, rest int) func(int) bool { return func(n int) bool { return n%k == rest } }

// P1, P4: each stage has its own pool; a failed item skips the later stages, and its record has the stage and the item
// as the job got it. The pool of the last stage comes late.
func TestStages_P1_Sequence(t *testing.T) {
	t.Parallel()
	c := setup(t)
	const items = 2000
	var input, want strings.Builder
	failures := map[string]int{}
	for i := range items {
		fmt.Fprintf(&input, "{\"n\":%d}\n", i)
		switch {
		case i%50 == 7:
			failures["clean"]++
		case i%50 == 8:
		case i%50 == 9:
			failures["score"]++
		case i%100 == 10:
			failures["format"]++
		default:
			fmt.Fprintf(&want, "{\"n\":%d,\"seen\":[\"clean\",\"score\",\"format\"]}\n", i)
		}
	}
	c.servePool("first", stageNamed("clean", every(50, 7), every(50, 8)), worker.Options{})
	c.servePool("second", stageNamed("score", every(50, 9), nil), worker.Options{})
	run, _ := c.start("in.jsonl", input.String(), func(s *job.Spec) {
		s.Pool = ""
		s.Stages = []job.Stage{{Name: "clean", Pool: "first"}, {Name: "score", Pool: "second"}, {Name: "format", Pool: "third"}}
		s.BatchItems = 64
	})
	c.servePool("third", stageNamed("format", every(100, 10), nil), worker.Options{})
	report := c.wait(run)

	require.Equal(t, want.String(), c.read("out"))
	require.EqualValues(t, items, report.OK+report.Failed)
	require.EqualValues(t, items/50, report.Dropped)
	require.Zero(t, report.Between)
	got := map[string]int{}
	for line := range strings.Lines(c.read("out.errors.jsonl")) {
		var f job.Failure
		require.NoError(t, json.Unmarshal([]byte(line), &f))
		got[f.Stage]++
		require.Equal(t, fmt.Sprintf(`{"n":%d}`, f.Item), string(f.Input))
		require.Equal(t, f.Stage+" cannot", f.Error.Message)
	}
	require.Equal(t, failures, got)
}

// threeStages are the pools of a pipeline whose last stage fails some items until it is mended.
func threeStages() []job.Stage {
	return []job.Stage{{Name: "clean", Pool: "first"}, {Name: "score", Pool: "second"}, {Name: "format", Pool: "third"}}
}

// P4: a pipeline that is stopped in any stage, and resumed, has the output that it would have had.
func TestStages_P4_StopAndResume(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	c := setup(t)
	const items = 1200
	var input, want strings.Builder
	for i := range items {
		fmt.Fprintf(&input, "{\"n\":%d}\n", i)
		fmt.Fprintf(&want, "{\"n\":%d,\"seen\":[\"clean\",\"score\",\"format\"]}\n", i)
	}
	var calls [3]atomic.Int64
	reached := make(chan struct{})
	counted := func(stage int) func(int) bool {
		return func(int) bool {
			if calls[stage].Add(1) == 100 && stage == 2 {
				close(reached)
			}
			return false
		}
	}
	c.servePool("first", stageNamed("clean", counted(0), nil), worker.Options{})
	c.servePool("second", stageNamed("score", counted(1), nil), worker.Options{})
	c.servePool("third", stageNamed("format", counted(2), nil), worker.Options{})
	run, _ := c.start("in.jsonl", input.String(), func(s *job.Spec) { s.Pool, s.Stages, s.BatchItems, s.Window = "", threeStages(), 20, 4 })
	<-reached
	err := run.Stop(t.Context(), job.Stop{Reason: "test"})
	require.NoError(t, err)
	report := c.wait(run)
	require.Equal(t, job.Stopped, report.State)
	require.Zero(t, report.Between)
	require.Positive(t, report.OK)

	repeated := report.Repeated
	report = c.wait(c.resume())
	require.Equal(t, job.Completed, report.State)
	require.EqualValues(t, items, report.OK)
	require.Zero(t, report.Between)
	for stage := range calls {
		require.LessOrEqual(t, calls[stage].Load(), items+repeated+report.Repeated, "stage %d: nothing that was recorded runs again", stage)
	}
	require.Equal(t, want.String(), c.read("out"))
}

// A redrive takes failed items through the whole pipeline, wherever they have failed.
func TestStages_Redrive(t *testing.T) {
	t.Parallel()
	c := setup(t)
	const items = 300
	var input, want strings.Builder
	for i := range items {
		fmt.Fprintf(&input, "{\"n\":%d}\n", i)
		fmt.Fprintf(&want, "{\"n\":%d,\"seen\":[\"clean\",\"score\",\"format\"]}\n", i)
	}
	var mended atomic.Bool
	broken := func(rest int) func(int) bool {
		return func(n int) bool { return n%30 == rest && !mended.Load() }
	}
	c.servePool("first", stageNamed("clean", broken(1), nil), worker.Options{})
	c.servePool("second", stageNamed("score", broken(2), nil), worker.Options{})
	c.servePool("third", stageNamed("format", broken(3), nil), worker.Options{})
	run, _ := c.start("in.jsonl", input.String(), func(s *job.Spec) { s.Pool, s.Stages, s.BatchItems = "", threeStages(), 25 })
	report := c.wait(run)
	require.EqualValues(t, 30, report.Failed)

	mended.Store(true)
	again, err := jobs.NewClient(c.client, nil).Redrive(t.Context(), "job", jobs.RedriveOptions{})
	require.NoError(t, err)
	report = c.wait(again)
	require.Zero(t, report.Failed)
	require.Equal(t, want.String(), c.read("out"))
}

// P4: the last stage has its first result before the first one has had a tenth of the input: a batch that has come
// through a stage goes before new ones, so no more items are begun than the window has places for.
func TestStages_P4_FirstResult(t *testing.T) {
	t.Parallel()
	c := setup(t)
	const items, batch, window = 200_000, 500, 10
	var begun atomic.Int64
	answered := make(chan int64, 1)
	c.servePool("first", stageNamed("clean", func(int) bool { begun.Add(1); return false }, nil), worker.Options{})
	c.servePool("second", stageNamed("score", nil, nil), worker.Options{})
	c.servePool("third", stageNamed("format", func(int) bool {
		select {
		case answered <- begun.Load():
		default:
		}
		return false
	}, nil), worker.Options{})
	run, _ := c.start("in.jsonl", numbered(items), func(s *job.Spec) { s.Pool, s.Stages, s.BatchItems, s.Window = "", threeStages(), batch, window })
	n := <-answered
	t.Logf("after %d of %d items", n, items)
	require.LessOrEqual(t, n, int64(batch*window))
	require.Less(t, n, int64(items/10))
	require.NoError(t, run.Stop(t.Context(), job.Stop{Reason: "test"}))
	require.Equal(t, job.Stopped, c.wait(run).State)
}
