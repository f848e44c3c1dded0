package activities

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// results reads what `stint results` would print, and where it ended.
func (f *fixture) results(report job.Report, errorRecords bool, from int64) (string, int64) {
	f.t.Helper()
	var out bytes.Buffer
	next, err := outputs.Results(f.t.Context(), &store.Access{}, report, outputs.Selection{Errors: errorRecords, From: from}, &out)
	require.NoError(f.t, err)
	return out.String(), next
}

func (f *fixture) report(heads ...string) job.Report {
	return job.Report{Job: f.spec.Name, Run: f.ref.Run, Store: f.spec.Store, Manifests: heads, Planned: f.next.Item}
}

// finished finishes the job and returns its report.
func (f *fixture) finished(heads ...string) job.Report {
	f.t.Helper()
	report := f.report(heads...)
	output := f.finish(heads...).Output
	report.Output, report.State = &output, job.Completed
	return report
}

// Of a running job the results up to the first item without one are there, and come once each.
func TestResults_OfRunningJob(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(50))
	f.spec.BatchItems = 10
	batches := f.plan()
	got, next := f.results(f.report(), false, 0)
	require.Empty(t, got)
	require.Zero(t, next)

	entries := f.processAll(batches)
	first := f.commit(nil, entries[0], entries[3])
	got, next = f.results(f.report(first), false, 0)
	require.Equal(t, f.output(entries[0]), got)
	require.EqualValues(t, 10, next)

	again, next := f.results(f.report(first), false, next)
	require.Empty(t, again)
	require.EqualValues(t, 10, next)

	second := f.commit([]string{first}, entries[1], entries[2])
	more, next := f.results(f.report(second), false, next)
	require.Equal(t, f.output(entries[1])+f.output(entries[2])+f.output(entries[3]), more)
	require.EqualValues(t, 40, next)
}

func TestResults_OfFinishedJob(t *testing.T) {
	t.Parallel()
	for _, output := range []string{"out.jsonl", "out/"} {
		t.Run(output, func(t *testing.T) {
			t.Parallel()
			f := setup(t, "in.jsonl", jobtest.Lines(100))
			f.spec = job.Spec{Name: "test", Pool: "pool", Files: f.spec.Files, Output: f.dir + "/" + output}
			heads, want, wantErrors := f.done(2)
			report := f.finished(heads...)

			got, next := f.results(report, false, 0)
			require.Equal(t, want, got)
			require.EqualValues(t, 100, next)

			records, _ := f.results(report, true, 0)
			require.Equal(t, strings.Count(wantErrors, "\n"), strings.Count(records, "\n"))
			for line := range strings.Lines(records) {
				var failure job.Failure
				require.NoError(t, json.Unmarshal([]byte(line), &failure))
				require.EqualValues(t, 3, failure.Item%7)
			}
		})
	}
}

// Following a job over its end: what was printed before is not printed again, and the rest is.
func TestResults_FollowedOverTheEnd(t *testing.T) {
	t.Parallel()
	for _, output := range []string{"out.jsonl", "out/"} {
		for _, errorRecords := range []bool{false, true} {
			t.Run(output, func(t *testing.T) {
				t.Parallel()
				f := setup(t, "in.jsonl", jobtest.Lines(100))
				f.spec = job.Spec{Name: "test", Pool: "pool", Files: f.spec.Files, Output: f.dir + "/" + output}
				heads, _, _ := f.done(1)
				whole, _ := f.results(f.report(heads...), errorRecords, 0)
				entries := f.gather(heads...)
				begun := f.commit(nil, entries[0].Entry, entries[1].Entry)
				head, next := f.results(f.report(begun), errorRecords, 0)
				require.EqualValues(t, entries[1].End(), next)

				report := f.finished(heads...)
				tail, _ := f.results(report, errorRecords, next)
				require.Equal(t, whole, head+tail)
			})
		}
	}
}

// While Finish removes what it has joined, an older report still names the parts.
func TestResults_WhileFinishing(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(50))
	f.spec.BatchItems = 10
	head := f.commit(nil, f.processAll(f.plan())...)
	running := f.report(head)
	running.State = job.Running
	finished := f.finished(head)
	got, next := f.results(running, false, 0)
	require.Empty(t, got)
	require.Zero(t, next, "a later report tells where they are")
	all, _ := f.results(finished, false, next)
	require.Equal(t, jobtest.Lines(50), all)

	stopped := f.report(head)
	stopped.State = job.Stopped
	_, err := outputs.Results(t.Context(), &store.Access{}, stopped, outputs.Selection{}, io.Discard)
	require.ErrorIs(t, err, fs.ErrNotExist, "nobody has put them anywhere")
}

func TestResults_WithoutErrors(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(20))
	head := f.commit(nil, f.processAll(f.plan())...)
	report := f.finished(head)
	records, _ := f.results(report, true, 0)
	require.Empty(t, records)
}

func TestResults_OfCorruptPart(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(20))
	f.spec.BatchItems = 10
	entries := f.processAll(f.plan())
	head := f.commit(nil, entries...)
	f.rewrite(ledger.ResultsKey(f.ref.Run, entries[1]), func(s string) string { return strings.ToUpper(s) })
	_, err := outputs.Results(t.Context(), &store.Access{}, f.report(head), outputs.Selection{}, &bytes.Buffer{})
	jobtest.RequireType(t, err, job.ErrorCorrupt)
}

// The results of one session of a feed can be picked out, from parts and from a whole file.
func TestResults_OfSession(t *testing.T) {
	t.Parallel()
	for _, output := range []string{"out.jsonl", "out/"} {
		t.Run(output, func(t *testing.T) {
			t.Parallel()
			f := setup(t, "in.jsonl", jobtest.Lines(60))
			f.spec = job.Spec{Name: "test", Pool: "pool", Files: f.spec.Files, Output: f.dir + "/" + output, Store: f.spec.Store, BatchItems: 10}.WithDefaults()
			entries := f.processAll(f.plan())
			sessions := []int64{1, 2, 2, 1, 2, 3}
			var want [4]string
			for i := range entries {
				entries[i].Session = sessions[i]
				want[sessions[i]] += f.output(entries[i])
			}
			head := f.commit(nil, entries...)
			running := f.report(head)
			check := func(report job.Report) {
				for session, all := range want[:4] {
					if session == 0 {
						continue
					}
					var out bytes.Buffer
					next, err := outputs.Results(t.Context(), &store.Access{}, report, outputs.Selection{Session: int64(session)}, &out)
					require.NoError(t, err)
					require.EqualValues(t, 60, next)
					require.Equal(t, all, out.String(), "session %d", session)
				}
			}
			check(running)
			check(f.finished(head))
		})
	}
}
