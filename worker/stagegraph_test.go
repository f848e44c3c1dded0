package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
)

// scored is what a model answers.
type scored struct {
	Model string `json:"model"`
	N     int    `json:"n"`
}

// model is a handler that fails items of which fail says so.
func model(name string, fail func(n int) bool) worker.Handler {
	return worker.Each(func(_ context.Context, r record) (scored, error) {
		if fail != nil && fail(r.N) {
			return scored{}, errors.New(name + " cannot")
		}
		return scored{name, r.N}, nil
	})
}

// numbered is an input of so many records.
func numbered(items int) string {
	var input strings.Builder
	for i := range items {
		fmt.Fprintf(&input, "{\"n\":%d}\n", i)
	}
	return input.String()
}

// failuresOf are the error records of a job, by item.
func (c *cluster) failuresOf() map[int64]job.Failure {
	c.t.Helper()
	all := map[int64]job.Failure{}
	for line := range strings.Lines(c.read("out.errors.jsonl")) {
		var f job.Failure
		require.NoError(c.t, json.Unmarshal([]byte(line), &f))
		all[f.Item] = f
	}
	return all
}

// P2: an ensemble of three has its members' results in their order. By default the first member's error fails the item;
// otherwise errors stand in the list, and an item fails only if all members fail it.
func TestStages_P2_Ensemble(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprint("keep errors ", keep), func(t *testing.T) {
			t.Parallel()
			c := setup(t)
			const items = 60
			c.servePool("a", model("a", func(n int) bool { return n%10 < 1 }), worker.Options{})
			c.servePool("b", model("b", func(n int) bool { return n%10 < 2 }), worker.Options{})
			c.servePool("c", model("c", func(n int) bool { return n%10 < 1 || n%10 == 3 }), worker.Options{})
			run, _ := c.start("in.jsonl", numbered(items), func(s *job.Spec) {
				s.Pool, s.BatchItems = "", 25
				s.Stages = []job.Stage{{Name: "score", KeepErrors: keep, Ensemble: []job.Stage{{Pool: "a"}, {Pool: "b"}, {Pool: "c"}}}}
			})
			report := c.wait(run)

			result := func(model string, n int) string { return fmt.Sprintf(`{"model":%q,"n":%d}`, model, n) }
			fault := func(model string) string {
				return fmt.Sprintf(`{"error":{"type":"error","message":"%s cannot"}}`, model)
			}
			var want strings.Builder
			failures := c.failuresOf()
			for n := range items {
				list := []string{result("a", n), result("b", n), result("c", n)}
				first := ""
				for i, bad := range []bool{n%10 < 1, n%10 < 2, n%10 < 1 || n%10 == 3} {
					if bad {
						name := string(rune('a' + i))
						list[i] = fault(name)
						if first == "" {
							first = name
						}
					}
				}
				all := "[" + strings.Join(list, ",") + "]"
				f, failed := failures[int64(n)]
				switch {
				case first == "" || keep && n%10 > 0:
					require.False(t, failed)
					want.WriteString(all + "\n")
				case keep:
					require.Equal(t, "score", f.Stage)
					require.Equal(t, job.ErrorEnsemble, f.Error.Type)
					require.Contains(t, f.Error.Message, "0 of 3 members finished")
					require.Equal(t, all, string(f.Partial))
				default:
					require.Equal(t, "score."+first, f.Stage)
					require.Equal(t, first+" cannot", f.Error.Message)
					require.Equal(t, all, string(f.Partial))
				}
				if failed {
					require.Equal(t, fmt.Sprintf(`{"n":%d}`, n), string(f.Input))
				}
			}
			require.Equal(t, want.String(), c.read("out"))
			require.EqualValues(t, items, report.OK+report.Failed)
			require.EqualValues(t, len(failures), report.Failed)
		})
	}
}

// P3: a switch sends each item to its case, by a field or by the answer of a pool. What is of no case, and what the
// router fails, has failed.
func TestStages_P3_Switch(t *testing.T) {
	t.Parallel()
	c := setup(t)
	const items = 60
	c.servePool("router", worker.Each(func(_ context.Context, r record) (any, error) {
		switch r.N % 5 {
		case 0:
			return "x", nil
		case 1:
			return "y", nil
		case 2:
			return "nowhere", nil
		case 3:
			return 7, nil
		}
		return nil, errors.New("router cannot")
	}), worker.Options{})
	c.servePool("px", stageNamed("x", func(n int) bool { return n == 10 }, nil), worker.Options{})
	c.servePool("py", stageNamed("y", nil, func(n int) bool { return n == 11 }), worker.Options{})
	run, _ := c.start("in.jsonl", numbered(items), func(s *job.Spec) {
		s.Pool, s.BatchItems = "", 25
		s.Stages = []job.Stage{
			{Name: "route", Switch: "router", Cases: []job.Case{{Value: "x", Stage: job.Stage{Pool: "px"}}, {Value: "y", Stage: job.Stage{Pool: "py"}}}},
		}
	})
	report := c.wait(run)
	require.EqualValues(t, 1, report.Dropped)

	var want strings.Builder
	failures := c.failuresOf()
	for n := range items {
		f, failed := failures[int64(n)]
		wrong := func(stage, kind, message string) {
			require.True(t, failed, "item %d", n)
			require.Equal(t, [2]string{stage, kind}, [2]string{f.Stage, f.Error.Type})
			require.Contains(t, f.Error.Message, message)
		}
		switch {
		case n == 10:
			wrong("route.px", "error", "x cannot")
		case n == 11:
			require.False(t, failed)
		case n%5 < 2:
			require.False(t, failed)
			fmt.Fprintf(&want, "{\"n\":%d,\"seen\":[%q]}\n", n, []string{"x", "y"}[n%5])
		case n%5 == 2:
			wrong("route", job.ErrorRoute, `no case for "nowhere": there are x, y; add one, or a default`)
		case n%5 == 3:
			wrong("route", job.ErrorRoute, "the answer 7 is not a text")
		default:
			wrong("route", "error", "router cannot")
		}
	}
	require.Equal(t, want.String(), c.read("out"))
	require.EqualValues(t, items, report.OK+report.Failed)
}

// feedStages are the pools of a feed that is a pipeline: its second stage is an ensemble, one of whose members answers
// some items at length.
func (c *cluster) serveFeedStages(format func(n int) error) {
	c.servePool("pool", stageNamed("clean", every(10, 7), every(10, 8)), worker.Options{})
	long := strings.Repeat("long ", 20_000)
	c.servePool("a", worker.Each(func(_ context.Context, r record) (scored, error) {
		if r.N%50 == 5 {
			return scored{long, r.N}, nil
		}
		return scored{"a", r.N}, nil
	}), worker.Options{})
	c.servePool("b", model("b", every(10, 2)), worker.Options{})
	c.servePool("format", worker.Each(func(_ context.Context, all []scored) (string, error) {
		if format != nil {
			if err := format(all[0].N); err != nil {
				return "", err
			}
		}
		return fmt.Sprintf("%d %d %s", len(all[0].Model), all[1].N, all[1].Model), nil
	}), worker.Options{})
}

func feedStages(s *job.Spec) {
	s.Stages = []job.Stage{
		{Name: "clean", Pool: "pool"},
		{Name: "score", Ensemble: []job.Stage{{Pool: "a"}, {Pool: "b"}}},
		{Name: "format", Pool: "format"},
	}
}

// formatted is what becomes of an item there: its result, or the stage that fails it; neither if it is dropped.
func formatted(n int) (result, failed string) {
	switch n % 10 {
	case 7:
		return "", "clean"
	case 8:
		return "", ""
	case 2:
		return "", "score.b"
	}
	if n%50 == 5 {
		return fmt.Sprintf(`"100000 %d b"`, n), ""
	}
	return fmt.Sprintf(`"1 %d b"`, n), ""
}

func records(from, n int) (all []json.RawMessage) {
	for i := range n {
		all = append(all, fmt.Appendf(nil, `{"n":%d}`, from+i))
	}
	return all
}

// P1, P2: a feed takes the same stages: callers get the results of the last one, and errors name the stage.
func TestStages_P2_Feed(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.serveFeedStages(nil)
	f := c.startFeed(feedStages)
	f.find()
	var want strings.Builder
	for _, size := range []int{1, 10, 100} {
		first := int64(-1)
		for ordinal, r := range f.call(records(0, size)...) {
			if first < 0 || ordinal < first {
				first = ordinal
			}
			require.NotNil(t, r)
		}
		for n := range size {
			if result, _ := formatted(n); result != "" {
				want.WriteString(result + "\n")
			}
		}
	}
	f.close()
	report := f.wait(f.run)
	require.Equal(t, want.String(), f.read("out"))
	require.EqualValues(t, 111, report.OK+report.Failed)
	for item, failure := range f.failuresOf() {
		n := int(item)
		if n >= 11 {
			n -= 11
		} else if n >= 1 {
			n--
		}
		_, stage := formatted(n)
		require.Equal(t, stage, failure.Stage, "item %d", item)
		require.JSONEq(t, fmt.Sprintf(`{"n":%d}`, n), string(failure.Input))
	}
}

// P4, F1: a feed that is stopped while items are in all stages, and resumed, loses none and doubles none.
func TestStages_P4_FeedStopAndResume(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	c := setup(t)
	const items = 120
	reached, goOn := make(chan struct{}), make(chan struct{})
	c.serveFeedStages(func(n int) error {
		if n == 1 {
			close(reached)
			<-goOn
		}
		return nil
	})
	f := c.startFeed(func(s *job.Spec) { feedStages(s); s.BatchItems = 5 })
	f.find()
	f.put(records(0, items)...)
	<-reached
	require.NoError(t, f.run.Stop(t.Context(), job.Stop{Reason: "test"}))
	close(goOn)
	require.Equal(t, job.Stopped, c.wait(f.run).State)
	f.run = c.resume()
	f.close()
	report := c.wait(f.run)
	require.EqualValues(t, items, report.OK+report.Failed)
	var want strings.Builder
	for n := range items {
		if result, _ := formatted(n); result != "" {
			want.WriteString(result + "\n")
		}
	}
	require.Equal(t, want.String(), f.read("out"))
}

// A stage that fails all its items ends the job, although others wait between two stages then; a member of an ensemble
// whose errors are kept does not.
func TestStages_NothingWorks(t *testing.T) {
	t.Parallel()
	always := func(int) bool { return true }
	t.Run("a stage", func(t *testing.T) {
		t.Parallel()
		c := setup(t)
		c.servePool("first", stageNamed("clean", nil, nil), worker.Options{})
		c.servePool("second", stageNamed("score", always, nil), worker.Options{})
		c.servePool("third", stageNamed("format", nil, nil), worker.Options{})
		run, _ := c.start("in.jsonl", numbered(20_000), func(s *job.Spec) { s.Pool, s.Stages, s.BatchItems = "", threeStages(), 100 })
		report, err := run.Wait(t.Context())
		require.ErrorContains(t, err, "nothing works")
		require.Equal(t, job.Failed, report.State)
		require.Less(t, report.Failed, int64(10_000))
	})
	t.Run("a member", func(t *testing.T) {
		t.Parallel()
		c := setup(t)
		c.servePool("a", model("a", nil), worker.Options{})
		c.servePool("b", model("b", always), worker.Options{})
		run, _ := c.start("in.jsonl", numbered(3000), func(s *job.Spec) {
			s.Pool, s.BatchItems = "", 100
			s.Stages = []job.Stage{{Name: "score", KeepErrors: true, Ensemble: []job.Stage{{Pool: "a"}, {Pool: "b"}}}}
		})
		report := c.wait(run)
		require.EqualValues(t, 3000, report.OK)
	})
}
