package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stint-run/stint/job"
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

// P1, P4: each stage has its own pool; a failed item skips the later stages, and its record has the stage and the item as the job
// got it. The pool of the last stage comes late.
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
