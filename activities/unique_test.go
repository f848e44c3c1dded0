package activities

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// uniqueJob is a job over items of which most are there several times. One kind in seven fails, another one has no result.
type uniqueJob struct {
	*fixture
	called       int
	output       string
	kinds        int
	items        []string
	failed, none int
}

func setupUnique(t *testing.T, output string, items, kinds int) *uniqueJob {
	u := &uniqueJob{fixture: setup(t), kinds: kinds}
	random := jobtest.Seeded(t, 2950)
	for range items {
		kind := random.IntN(kinds)
		item := fmt.Sprintf(`{"kind":%d}`, kind)
		u.items = append(u.items, item)
		switch kind % 7 {
		case 1:
			u.failed++
		case 2:
			u.none++
		default:
			u.output += strings.ToUpper(item) + "\n"
		}
	}
	u.spec.Files.Input = []string{u.write("in.jsonl", strings.Join(u.items, "\n")+"\n")}
	u.spec.Output, u.spec.Store, u.spec.Errors = u.path("")+"/"+output, "", ""
	u.spec.Unique, u.spec.BatchItems = true, 9
	h := &callstest.Handler{As: calls.Traits{Form: calls.Lines}, Size: calls.CallSize{Items: 4}, Each: u.each}
	u.serve(h, Options{})
	u.newRun("run-1")
	return u
}

func (u *uniqueJob) each(c *calls.Call, item calls.Item) {
	u.called++
	var of struct{ Kind int }
	require.NoError(u.t, json.Unmarshal(item.Data, &of))
	switch of.Kind % 7 {
	case 1:
		c.Answer.Fail(&calls.Fault{Kind: job.KindError, Err: job.Error{Type: "Broken"}}, 1)
	case 2:
		c.Answer.Drop()
	default:
		c.Answer.Line([]byte(strings.ToUpper(string(item.Data))))
	}
}

// requireDone checks the output, and that nothing else is left than what a redrive needs.
func (u *uniqueJob) requireDone(result wire.FinishResult) {
	u.t.Helper()
	report := job.Report{Run: u.ref.Run, Store: u.spec.Store, Manifests: result.Manifests, Output: &result.Output, Planned: result.Books.Items, State: job.Completed}
	got, _ := u.fixture.results(report, false, 0)
	require.Equal(u.t, u.output, got)
	records, _ := u.fixture.results(report, true, 0)
	require.Equal(u.t, u.failed, strings.Count(records, "\n"))
	require.EqualValues(u.t, u.failed, result.Books.Failed)
	require.EqualValues(u.t, u.none, result.Books.Dropped)
	for _, key := range u.keys("") {
		require.NotContains(u.t, key, "/equal-")
		kept := strings.HasSuffix(u.spec.Output, "/")
		require.False(u.t, strings.Contains(key, "/parts/") && !kept && !strings.HasSuffix(key, ".err"), "nothing needs %s", key)
	}
}

// J6: An execution of Finish that was given up goes on while the next one is at any of its steps: both succeed, and so
// does that of a run that continues from them.
func TestUnique_TwoFinishesAtOnce(t *testing.T) {
	t.Parallel()
	for _, output := range []string{"out.jsonl", "out/"} {
		t.Run(output, func(t *testing.T) {
			t.Parallel()
			for step := 0; ; step += 3 {
				u := setupUnique(t, output, 60, 20)
				head := u.commit(nil, u.processAll(u.plan())...)
				ctx := &interrupted{Context: t.Context(), left: step}
				var first wire.FinishResult
				ctx.do = func() { first = u.finishThrough(t.Context(), []string{head}) }
				second := u.finishThrough(ctx, []string{head})
				begun := ctx.begun()
				u.requireDone(second)
				if begun {
					require.Equal(t, first, second, "step %d", step)
					continue
				}
				require.Greater(t, step, 20)
				u.newRun("run-2")
				require.Empty(t, u.plan(head))
				third := u.finish(head)
				require.Equal(t, second.Books, third.Books)
				u.requireDone(third)
				return
			}
		})
	}
}

// J6: A list of twins that is lost or damaged costs calls, and never a result.
func TestUnique_LostList(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(path string) error{
		"lost":  os.Remove,
		"cut":   func(path string) error { return os.Truncate(path, 20) },
		"other": func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("x", 10_000)), 0o666) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := setupUnique(t, "out.jsonl", 200, 30)
			batches := u.plan()
			half := len(batches) / 2
			entries := u.processAll(batches[:half])
			for _, key := range u.keys("run-1/equal-") {
				require.NoError(t, damage(u.path("out.jsonl.stint/"+key)))
			}
			u.serve(u.acts.opts.Handler, Options{}) // another worker, which does not remember
			u.called = 0
			entries = append(entries, u.processAll(batches[half:])...)
			require.EqualValues(t, u.next.Item-batches[half].First, u.called, "every item")
			u.requireDone(u.finish(u.commit(nil, entries...)))
		})
	}
}

// J6: What is printed while the job runs ends at the first item that waits for another one; the rest follows.
func TestUnique_ResultsOfARunningJob(t *testing.T) {
	t.Parallel()
	u := setupUnique(t, "out/", 200, 150)
	head := u.commit(nil, u.processAll(u.plan())...)
	begun, next := u.fixture.results(u.report(head), false, 0)
	require.NotEmpty(t, begun)
	require.Less(t, next, u.next.Item)
	done := u.finish(head)
	rest, _ := u.fixture.results(u.report(done.Manifests...), false, next)
	require.Equal(t, u.output, begun+rest)
}

// J6: Batches without twins take the short way to a filter.
func TestUnique_Filter(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var items []string
	for i := range 3000 {
		items = append(items, fmt.Sprint("item ", i%2000))
	}
	f.spec.Files.Input = []string{f.write("in", strings.Join(items, "\n")+"\n")}
	f.spec.Format, f.spec.Unique, f.spec.BatchItems = "text", true, 500
	var seen int
	h := &callstest.Filter{Whole: true, Do: func(in io.Reader, out io.Writer) error {
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			seen++
			if _, err := fmt.Fprintln(out, strings.ToUpper(lines.Text())); err != nil {
				return err
			}
		}
		return lines.Err()
	}}
	f.serve(h, Options{})
	f.newRun("run-1")
	result := f.finish(f.commit(nil, f.processAll(f.plan())...))
	require.Equal(t, strings.ToUpper(strings.Join(items, "\n")+"\n"), f.read("out.jsonl"))
	require.Equal(t, 2000, seen)
	require.EqualValues(t, 4, h.Wholes())
	require.EqualValues(t, 1000, result.Books.Equal)
}
