package page

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/mocks"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

// U9: of the jobs of a list those are asked whose answers are the oldest, and none again that has just not answered.
func TestMemories_OldestFirst(t *testing.T) {
	t.Parallel()
	var m memories
	var list []*ListedJob
	for i := range 5 {
		list = append(list, &ListedJob{Listed: jobs.Listed{Run: fmt.Sprint(i)}})
	}
	now := time.Now()
	m.of("0").keep(*list[0], now)
	m.of("1").keep(*list[1], now.Add(-time.Hour))
	since := m.of("2").silent(now.Add(-time.Minute), now)
	require.Equal(t, now.Add(-time.Minute), *since)
	require.Equal(t, since, m.of("2").silent(now, now), "it has been silent since")
	require.Equal(t, []*ListedJob{list[3], list[4], list[1]}, m.oldest(list, 3))
	require.Equal(t, []*ListedJob{list[3], list[4], list[1], list[0]}, m.oldest(list, 10))
	m.of("2").note(job.Report{}, now)
	require.Len(t, m.oldest(list, 10), 5)
}

// What is kept has an end.
func TestMemories_Forget(t *testing.T) {
	t.Parallel()
	var m memories
	for i := range maxMemories + 10 {
		m.of(fmt.Sprint(i))
	}
	require.Len(t, m.runs, maxMemories)
	known := m.of("x")
	now := time.Now()
	for i := range 5000 {
		known.note(job.Report{}, now.Add(time.Duration(i)*time.Second))
	}
	require.LessOrEqual(t, len(known.samples()), maxNoted)
	require.Equal(t, now.Add(4999*time.Second), known.samples()[len(known.samples())-1].At)
}

// The speed is that of the last seconds; without them the average.
func TestMemory_Numbers(t *testing.T) {
	t.Parallel()
	now := time.Now()
	report := func(ok int64) job.Report {
		r := job.Report{State: job.Running, Started: now.Add(-100 * time.Second), Planned: 2000, PlanDone: true}
		r.OK = ok
		return r
	}
	var m memory
	m.note(report(500), now.Add(-10*time.Second))
	n := m.numbers(report(500), now)
	require.InEpsilon(t, 5, n.ItemsPerSecond, 0.01)
	m.note(report(1000), now)
	n = m.numbers(report(1000), now)
	require.InEpsilon(t, 50, n.ItemsPerSecond, 0.01)
	require.InEpsilon(t, 20, *n.SecondsLeft, 0.01)
	require.Equal(t, int64(50), *n.Percent)
}

// A job that stands still has no rate of the present, and no time left: not the average of its life.
func TestMemory_StandsStill(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r := job.Report{State: job.Running, Started: now.Add(-100 * time.Second), Planned: 2000, PlanDone: true}
	r.OK = 500
	var m memory
	m.note(r, now.Add(-10*time.Second))
	m.note(r, now)
	n := m.numbers(r, now)
	require.Zero(t, n.ItemsPerSecond)
	require.Nil(t, n.SecondsLeft)
	r.State = job.Completed
	require.InEpsilon(t, 5, m.numbers(r, now).ItemsPerSecond, 0.01, "that of its life")
}

// An answer fills in a list as long as it is newer than what the list has, and not old.
func TestMemory_Recall(t *testing.T) {
	t.Parallel()
	now := time.Now()
	answered := func(ok int64, at time.Time) ListedJob {
		return ListedJob{Listed: jobs.Listed{Progress: &job.Counted{OK: ok, At: at}}, Numbers: Numbers{ItemsPerSecond: float64(ok)}}
	}
	var m memory
	none := answered(1, now)
	m.recall(&none, now)
	require.Equal(t, answered(1, now), none, "it was not asked")

	last := answered(50, now.Add(-10*time.Second))
	last.PausedSince, last.SilentSince = &now, &now
	m.keep(last, now.Add(-10*time.Second))
	older := answered(20, now.Add(-20*time.Second))
	m.recall(&older, now)
	require.Equal(t, int64(50), older.Progress.OK)
	require.InDelta(t, 50, older.ItemsPerSecond, 0)
	require.Nil(t, older.PausedSince, "the list says that it goes on")
	require.Equal(t, &now, older.SilentSince)
	newer := answered(90, now.Add(-time.Second))
	m.recall(&newer, now)
	require.Equal(t, int64(90), newer.Progress.OK)
	require.InDelta(t, 90, newer.ItemsPerSecond, 0)
	late := answered(20, now.Add(-20*time.Second))
	m.recall(&late, now.Add(time.Hour))
	require.Equal(t, answered(20, now.Add(-20*time.Second)), late)
}

// While a job's spec is read, for a limited time, a list uses what is kept of the job.
func TestMemory_SpecHoldsUpNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		none := &mocks.HistoryEventIterator{}
		none.On("HasNext").Return(false)
		tc := &mocks.Client{}
		tc.On("GetWorkflowHistory", mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything).
			Run(func(args mock.Arguments) { <-args.Get(0).(context.Context).Done() }).Return(none)
		var m memory
		read := make(chan *job.Spec)
		go func() {
			spec, _ := m.specOf(t.Context(), jobs.NewClient(tc, nil), job.Report{Job: "nightly"})
			read <- spec
		}()
		synctest.Wait()
		began := time.Now()
		m.recall(&ListedJob{}, began)
		require.Zero(t, time.Since(began))
		require.Nil(t, <-read)
		require.LessOrEqual(t, time.Since(began), askLimit)
	})
}
