package jobmetrics

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/internal/test/metricnames"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stretchr/testify/require"
)

// fake is a namespace.
type fake struct {
	list    []jobs.Listed
	err     error
	reports map[string]job.Report
	errs    map[string]error
	since   time.Time
	asked   []string
}

func (f *fake) Since(_ context.Context, _ int, ended time.Time) ([]jobs.Listed, error) {
	f.since = ended
	return f.list, f.err
}

func (f *fake) Report(_ context.Context, name string) (job.Report, error) {
	f.asked = append(f.asked, name)
	return f.reports[name], f.errs[name]
}

// ask sends a request to the exporter.
func ask(e *Exporter, path string) (int, string) {
	w := httptest.NewRecorder()
	e.Routes().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func open(t *testing.T, f *fake) *Exporter {
	t.Helper()
	e, err := New(f, Options{Every: 30 * time.Second, Most: 2, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return e
}

// shows fails unless the metrics have each line; a line that begins with ! must not be there.
func shows(t *testing.T, e *Exporter, lines ...string) {
	t.Helper()
	status, text := ask(e, "/metrics")
	require.Equal(t, http.StatusOK, status)
	for _, line := range lines {
		if unwanted, is := strings.CutPrefix(line, "!"); is {
			require.NotContains(t, text, unwanted)
		} else {
			require.Contains(t, text, line+"\n")
		}
	}
}

func report(name string, planned, ok, failed int64) job.Report {
	return job.Report{
		Job: name, Pool: "p", State: job.Running, Planned: planned, PlanDone: true, Started: time.Now(), InFlight: 3,
		Outcomes: job.Outcomes{Totals: job.Totals{OK: ok, Failed: failed, Dropped: 10}},
	}
}

// M4: A job is shown from its first round until some time after its end.
func TestExporter_OverALife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		f := &fake{
			list:    []jobs.Listed{{Name: "nightly", Run: "1", Pool: "p", State: job.Running, Started: began}},
			reports: map[string]job.Report{"nightly": report("nightly", 1000, 100, 20)},
		}
		e := open(t, f)
		status, _ := ask(e, "/readyz")
		require.Equal(t, http.StatusServiceUnavailable, status, "nothing was asked yet")
		require.NoError(t, e.round(t.Context()))
		require.Equal(t, began.Add(-shownFor), f.since)
		status, _ = ask(e, "/readyz")
		require.Equal(t, http.StatusOK, status)

		time.Sleep(30 * time.Second)
		f.reports["nightly"] = report("nightly", 1000, 380, 40)
		require.NoError(t, e.round(t.Context()))
		shows(t, e,
			`stint_job_items{job="nightly",pool="p",state="ok"} 370`, `stint_job_items{job="nightly",pool="p",state="dropped"} 10`,
			`stint_job_items{job="nightly",pool="p",state="failed"} 40`, `stint_job_items{job="nightly",pool="p",state="left"} 580`,
			`stint_job_items_per_second{job="nightly",pool="p"} 10`, `stint_job_time_left_seconds{job="nightly",pool="p"} 58`,
			`stint_job_state{job="nightly",pool="p",state="running"} 1`, `stint_job_trouble{job="nightly",kind="outage",pool="p"} 0`,
			`stint_job_batches_in_flight{job="nightly",pool="p"} 3`, `stint_jobs{pool="p",state="running"} 1`, `!stint_jobs_ended_total`)
		metricnames.Require(t, e.Routes(), func(name string) bool {
			return strings.HasPrefix(name, "stint_job") && name != "stint_jobs_ended_total"
		})

		ended, final := time.Now(), report("nightly", 1000, 960, 40)
		final.State = job.Completed
		f.reports["nightly"] = final
		f.list[0].State, f.list[0].Ended = job.Completed, &ended
		for range 3 {
			require.NoError(t, e.round(t.Context()))
		}
		require.Len(t, f.asked, 3, "once it has ended, it is asked once")
		shows(t, e,
			`stint_job_state{job="nightly",pool="p",state="completed"} 1`, `stint_job_items{job="nightly",pool="p",state="left"} 0`,
			`!stint_job_items_per_second{`, `!stint_job_time_left`, `!stint_job_trouble`, `stint_jobs_ended_total{pool="p",state="completed"} 1`)
		require.Equal(t, []string{"stint_jobs_ended_total counter pool state"}, metricnames.Listed(t, func(name string) bool { return name == "stint_jobs_ended_total" }))
		require.Contains(t, metricnames.Shown(t, e.Routes()), "stint_jobs_ended_total counter pool state")

		f.list = nil
		require.NoError(t, e.round(t.Context()))
		shows(t, e, `!stint_job_state`, `stint_jobs_ended_total{pool="p",state="completed"} 1`)
	})
}

// M4: What is wrong with a job is shown, and what does not answer keeps its numbers.
func TestExporter_Trouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{
			list:    []jobs.Listed{{Name: "j", Run: "1", Pool: "p", State: job.Running}},
			reports: map[string]job.Report{"j": report("j", 100, 50, 0)}, errs: map[string]error{},
		}
		e := open(t, f)
		require.NoError(t, e.round(t.Context()))
		time.Sleep(time.Minute)
		f.errs["j"], f.reports["j"] = context.DeadlineExceeded, job.Report{}
		f.list[0].Stuck = true
		require.NoError(t, e.round(t.Context()))
		shows(t, e, `stint_job_trouble{job="j",kind="silent",pool="p"} 1`, `stint_job_trouble{job="j",kind="stuck",pool="p"} 1`,
			`stint_job_items{job="j",pool="p",state="ok"} 40`, `stint_job_answer_age_seconds{job="j",pool="p"} 60`)

		since, stalled := time.Now(), report("j", 100, 60, 0)
		stalled.Outage, stalled.Unserved, stalled.PausedSince = &job.Outage{}, true, &since
		f.errs["j"], f.reports["j"], f.list[0].PausedSince = nil, stalled, &since
		require.NoError(t, e.round(t.Context()))
		shows(t, e, `stint_job_trouble{job="j",kind="silent",pool="p"} 0`, `stint_job_trouble{job="j",kind="outage",pool="p"} 1`,
			`stint_job_trouble{job="j",kind="unserved",pool="p"} 1`, `stint_job_state{job="j",pool="p",state="paused"} 1`, `!stint_job_time_left`)

		f.err = errors.New("no server")
		require.Error(t, e.round(t.Context()))
		status, text := ask(e, "/readyz")
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Contains(t, text, "no server")
		status, _ = ask(e, "/livez")
		require.Equal(t, http.StatusOK, status)
		shows(t, e, `stint_job_items{job="j",pool="p",state="ok"} 50`)
	})
}

// M4: A name that is used again is its latest run, and beyond the bound jobs are only counted.
func TestExporter_RunsAndBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		before, now := time.Now(), time.Now().Add(time.Hour)
		time.Sleep(time.Hour)
		earlier := jobs.Listed{Name: "a", Run: "1", Pool: "p", State: job.Failed, Started: before, Ended: &before}
		f := &fake{
			list: []jobs.Listed{
				earlier, {Name: "a", Run: "2", Pool: "p", State: job.Running, Started: now},
				{Name: "b", Run: "3", Pool: "p", State: job.Running}, {Name: "c", Run: "4", Pool: "p", State: job.Running},
			},
			reports: map[string]job.Report{"a": report("a", 1, 0, 0), "b": report("b", 1, 0, 0), "c": report("c", 1, 0, 0)},
		}
		e := open(t, f)
		require.NoError(t, e.round(t.Context()))
		require.ElementsMatch(t, []string{"a", "b"}, f.asked)
		shows(t, e, `stint_jobs{pool="p",state="running"} 3`, `stint_job_state{job="a",pool="p",state="running"} 1`, `!job="c"`, `!stint_jobs_ended_total`)
	})
}

// M4: A run that ends and is resumed between two rounds has ended, once.
func TestExporter_ResumedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		f := &fake{
			list:    []jobs.Listed{{Name: "a", Run: "1", Pool: "p", State: job.Running, Started: began}},
			reports: map[string]job.Report{"a": report("a", 10, 0, 0)},
		}
		e := open(t, f)
		require.NoError(t, e.round(t.Context()))
		time.Sleep(time.Second)
		ended := time.Now()
		f.list[0].State, f.list[0].Ended = job.Stopped, &ended
		time.Sleep(time.Second)
		f.list = append([]jobs.Listed{{Name: "a", Run: "2", Pool: "p", State: job.Running, Started: time.Now()}}, f.list...)
		for range 3 {
			require.NoError(t, e.round(t.Context()))
			shows(t, e, `stint_jobs_ended_total{pool="p",state="stopped"} 1`, `stint_jobs{pool="p",state="running"} 1`)
		}
	})
}
