package workflows

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/workflow"
)

// fromLeg is a signal as a leg of the job sends it.
func fromLeg[T any](value T) wire.FromLeg[T] { return wire.FromLeg[T]{Value: value} }

// scriptedFeed is the job of a feed, in the time of the workflow, whose legs say what the test has them say.
type scriptedFeed struct {
	*world
	// left is what an earlier run has left, in batches of ten items; session its last one.
	left    int
	session int64

	openings []wire.FeedOpening
	bounds   map[int][]wire.StageBound // by leg, with which it begins
	counts   wire.Counts               // of the leg that takes items
	heard    map[int][]int             // by leg, the totals of freed items that it has been sent
	sessions []int64
	limits   int
	quick    bool // legs take items for half a minute, and are sealed then
	lasting  bool // such a leg has an item that is never done
	dies     bool // the leg that takes items ends after a minute, without a report
}

func setupScripted(t *testing.T, change func(*job.Spec)) *scriptedFeed {
	t.Helper()
	f := &scriptedFeed{world: setup(t, 0), heard: map[int][]int{}, bounds: map[int][]wire.StageBound{}}
	f.spec = job.Spec{Name: "risk", Pool: "risk", Feed: &job.Feed{}, Output: "out/", Window: 1}
	if change != nil {
		change(&f.spec)
	}
	f.spec = f.spec.WithDefaults()
	f.newEnv()
	f.env.RegisterActivityWithOptions(f.plan, activity.RegisterOptions{Name: "PlanFeed"})
	f.env.RegisterWorkflowWithOptions(f.leg, workflow.RegisterOptions{Name: wire.WorkflowFeedLeg})
	return f
}

func (f *scriptedFeed) plan(_ context.Context, in wire.PlanFeedInput) (wire.PlanFeedResult, error) {
	items := int64(f.left) * f.perBatch
	return wire.PlanFeedResult{
		PlanResult: wire.PlanResult{Page: f.page(0, f.left), Done: true, Sources: "sources", Next: wire.Cursor{Item: items}},
		Accepted:   items, Unfinished: items, Session: f.session,
	}, nil
}

// leg stays until the job stops.
func (f *scriptedFeed) leg(ctx workflow.Context, in wire.FeedLegInput) (wire.LegResult, error) {
	open := in.Opening != nil
	f.bounds[in.Number] = in.Limits.Stages
	if f.dies && open {
		_ = workflow.Sleep(ctx, time.Minute)
		return wire.LegResult{}, errors.New("terminated")
	}
	if f.quick {
		return f.quickly(ctx, in)
	}
	if open {
		f.openings = append(f.openings, *in.Opening)
	}
	job := workflow.GetInfo(ctx).ParentWorkflowExecution.ID
	take := func(name string, receive func(workflow.Context, workflow.ReceiveChannel)) {
		workflow.Go(ctx, func(ctx workflow.Context) {
			for {
				receive(ctx, workflow.GetSignalChannel(ctx, name))
			}
		})
	}
	take(wire.SignalAllFreed, func(ctx workflow.Context, c workflow.ReceiveChannel) {
		var freed wire.Freed
		c.Receive(ctx, &freed)
		f.heard[in.Number] = append(f.heard[in.Number], freed.Items)
	})
	take(wire.SignalSession, func(ctx workflow.Context, c workflow.ReceiveChannel) {
		var session int64
		c.Receive(ctx, &session)
		if open {
			f.sessions = append(f.sessions, session)
		}
	})
	take(wire.SignalLimits, func(ctx workflow.Context, c workflow.ReceiveChannel) {
		var limits wire.LegLimits
		c.Receive(ctx, &limits)
		f.limits++
		if limits.Ask {
			counts := wire.Counts{Leg: in.Number}
			if open {
				counts = f.counts
			}
			counts.Answer = true
			workflow.SignalExternalWorkflow(ctx, job, "", wire.SignalCounts, fromLeg(counts))
		}
	})
	var notice wire.StopNotice
	workflow.GetSignalChannel(ctx, wire.SignalHalt).Receive(ctx, &notice)
	result := wire.LegResult{Counted: f.counts, Manifests: in.Previous}
	_ = workflow.SignalExternalWorkflow(ctx, job, "", wire.SignalEnded, fromLeg(wire.KeptResult{Leg: in.Number, Result: result})).Get(ctx, nil)
	return result, nil
}

// quickly is a leg that takes 1,500 items in half a minute, commits them every ten seconds, and is sealed.
func (f *scriptedFeed) quickly(ctx workflow.Context, in wire.FeedLegInput) (wire.LegResult, error) {
	var opening wire.FeedOpening
	await := func(name string, value any) error { // it is cancelled with the job
		return workflow.Await(ctx, func() bool { return workflow.GetSignalChannel(ctx, name).ReceiveAsync(value) })
	}
	if in.Opening != nil {
		opening = *in.Opening
	} else if err := await(wire.SignalOpen, &opening); err != nil {
		return wire.LegResult{}, err
	}
	tell := func(name string, arg any) {
		_ = workflow.SignalExternalWorkflow(ctx, workflow.GetInfo(ctx).ParentWorkflowExecution.ID, "", name, fromLeg(arg)).Get(ctx, nil)
	}
	opening.First += 1500
	r := wire.LegResult{Accepted: opening.First, Manifests: []string{fmt.Sprintf("run/manifests/%016x.jsonl", in.Number)}}
	r.Totals = job.Totals{OK: 1500, Batches: 1500, Calls: 1500}
	for range 3 {
		_ = workflow.Sleep(ctx, 10*time.Second)
		tell(wire.SignalKept, wire.KeptResult{Leg: in.Number, Result: r})
	}
	var successor int
	if err := await(wire.SignalSuccessor, &successor); err != nil {
		return wire.LegResult{}, err
	}
	_ = workflow.SignalExternalWorkflow(ctx, wire.LegID(f.spec.Name, successor), "", wire.SignalOpen, opening).Get(ctx, nil)
	tell(wire.SignalSealed, wire.SealedNotice{Leg: in.Number, Next: opening.First})
	tell(wire.SignalFreed, wire.FreedNotice{Leg: in.Number, Total: wire.Freed{Items: 2}})
	if f.lasting {
		return wire.LegResult{}, workflow.Await(ctx, func() bool { return false })
	}
	tell(wire.SignalEnded, wire.KeptResult{Leg: in.Number, Result: r})
	return r, nil
}

// report has the open leg report its counts, at a time.
func (f *scriptedFeed) report(at time.Duration, session, ok, failed int64) {
	f.at(at, func() {
		f.counts = wire.Counts{Leg: 1, Session: session, OK: ok, Failed: failed}
		f.env.SignalWorkflow(wire.SignalCounts, fromLeg(f.counts))
	})
}

func (f *scriptedFeed) stopAt(at time.Duration) { f.at(at, func() { f.stop(job.Stop{}) }) }

// Rules count by session: what has failed or succeeded before a reset counts no more.
func TestFeed_RulesPerSession(t *testing.T) {
	t.Parallel()
	f := setupScripted(t, func(s *job.Spec) { s.MaxFailed = "10" })
	f.report(time.Second, 1, 50, 8)
	f.at(2*time.Second, func() { f.env.SignalWorkflow(wire.SignalSession, fromLeg(int64(2))) })
	f.report(3*time.Second, 1, 50, 11) // it has come late
	f.report(4*time.Second, 2, 0, 8)
	var before job.Report
	f.at(5*time.Second, func() { before = f.query() })
	f.report(6*time.Second, 2, 0, 11)
	_, err := f.run()
	require.Equal(t, job.Running, before.State, "16 items have failed, 8 of them in this session")
	report := f.failedReport(err, job.ErrorTooMany)
	require.Contains(t, report.Error.Message, "11 of 11 items done of session 2 have failed")
	require.Equal(t, []int64{2}, f.sessions)
	require.Positive(t, f.limits, "legs get the thresholds of the new session")

	f = setupScripted(t, nil)
	f.report(time.Second, 1, 5000, 1)
	f.at(2*time.Second, func() { f.env.SignalWorkflow(wire.SignalSession, fromLeg(int64(2))) })
	f.report(3*time.Second, 2, 0, 999)
	f.at(4*time.Second, func() { before = f.query() })
	f.report(5*time.Second, 2, 0, 1000)
	_, err = f.run()
	require.Equal(t, job.Running, before.State)
	report = f.failedReport(err, job.ErrorHopeless)
	require.Contains(t, report.Error.Message, "all of the first 1,000 items of session 2 have failed")
}

// S12: items that an earlier run has left take their part of the capacity until they are done, and are in the backlog.
// Their outcomes count for the session that the resume begins with.
func TestFeed_S12_EarlierItems(t *testing.T) {
	t.Parallel()
	f := setupScripted(t, nil)
	f.left, f.session, f.took = 3, 4, time.Minute
	var during job.Report
	f.at(90*time.Second, func() { during = f.query() })
	f.stopAt(time.Hour)
	report, err := f.run()
	require.NoError(t, err)
	require.Equal(t, job.Stopped, report.State)
	require.EqualValues(t, 30, report.OK)
	require.Len(t, f.openings, 1)
	require.Equal(t, wire.Opening{First: 30, Session: 5, Unfinished: 30}, f.openings[0].Opening)
	require.Equal(t, 20, during.Feed.Earlier)
	require.Equal(t, map[int][]int{1: {10, 20, 30}}, f.heard)
	require.Zero(t, report.Feed.Earlier)

	f = setupScripted(t, func(s *job.Spec) { s.MaxFailed = "5" })
	f.left, f.session = 3, 4
	f.process = func(x *execution) {
		if x.in.Batch.First == 0 {
			x.result.Totals.OK, x.result.Totals.Failed = 4, 6
			x.result.Entry.OK, x.result.Entry.Failed = 4, 6
		}
	}
	_, err = f.run()
	require.Contains(t, f.failedReport(err, job.ErrorTooMany).Error.Message, "of session 5")
}

// S12: what is left of an earlier run's items when the job's own history is long goes to another leg, before the legs
// that take new ones: these keep all places that they get.
func TestFeed_S12_EarlierItemsComeFirst(t *testing.T) {
	t.Parallel()
	f := setupScripted(t, nil)
	f.left, f.session, f.took = 3, 4, time.Minute
	f.historyLength = func() int { return dispatch.MaxEvents * (len(f.all) % 2) } // of the job, once its first batch has begun
	f.stopAt(time.Hour)
	report, err := f.run()
	require.NoError(t, err)
	require.Len(t, f.legs, 1, "the job itself did not run all")
	require.Equal(t, 1, f.legs[0].Window)
	require.EqualValues(t, 30, report.OK)
}

// P3: legs share the windows of stages from their beginning on, also with those that an earlier run of the workflow has
// opened.
func TestFeed_P3_SharesOfTheWindowOfAStage(t *testing.T) {
	t.Parallel()
	all, none := []wire.StageBound{{Stage: "score", Window: 2, Share: 2}}, []wire.StageBound{{Stage: "score", Window: 2}}
	stage := func(s *job.Spec) { s.Window, s.Stages = 4, []job.Stage{{Name: "score", Pool: "risk", Window: 2}} }
	f := setupScripted(t, stage)
	f.stopAt(time.Minute)
	_, err := f.run()
	require.NoError(t, err)
	require.Equal(t, map[int][]wire.StageBound{1: all, 2: none}, f.bounds)

	f = setupScripted(t, stage)
	f.env.OnSignalExternalWorkflow(anything, wire.LegID("risk", 1), "", anything, anything).Return(nil)
	f.stopAt(time.Minute)
	f.at(time.Minute+time.Second, func() { f.env.SignalWorkflow(wire.SignalEnded, fromLeg(wire.KeptResult{Leg: 1})) })
	var report job.Report
	_, err = f.runOnce(Job, wire.JobInput{StartInput: wire.StartInput{Spec: f.spec}, State: &wire.JobState{
		Portions: 1, LastLeg: 1, Carried: []wire.CarriedLeg{{Number: 1, Places: 4}}, Report: job.Report{Legs: 1},
		Work: wire.WorkState{Feed: &wire.FeedWorkState{Planned: true, Session: 1, Began: 1, Wanted: 1, Latest: 1, Open: 1}},
	}}, &report, new(wire.JobInput))
	require.NoError(t, err)
	require.Equal(t, job.Stopped, report.State)
	require.Equal(t, map[int][]wire.StageBound{2: none}, f.bounds)
}

// F11: what a sealed leg frees may be known to the job before the seal, late, or again: the next leg hears of all of
// it, once it takes items.
func TestFeed_F11_FreedInAnyOrder(t *testing.T) {
	t.Parallel()
	f := setupScripted(t, nil)
	freed := func(at time.Duration, items int) {
		f.at(at, func() {
			f.env.SignalWorkflow(wire.SignalFreed, fromLeg(wire.FreedNotice{Leg: 1, Total: wire.Freed{Items: items}}))
		})
	}
	freed(time.Second, 4)
	f.at(2*time.Second, func() { f.env.SignalWorkflow(wire.SignalSealed, fromLeg(wire.SealedNotice{Leg: 1, Next: 10})) })
	freed(3*time.Second, 2) // late
	freed(4*time.Second, 5)
	freed(5*time.Second, 5) // again
	f.stopAt(time.Minute)
	_, err := f.run()
	require.NoError(t, err)
	require.Equal(t, map[int][]int{1: {4}, 2: {4, 5}}, f.heard)
}

// G1: of a leg that ends without a report, what it had accepted is asked for. If the server has removed its history the
// report says so; if it could not be written to the store the job that is resumed asks again.
func TestFeed_G1_LegEndsWithoutReport(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name          string
		saved         wire.SalvageFeedResult
		err           error
		gone, unsaved []string
		manifests     []string
	}{
		{name: "saved", saved: wire.SalvageFeedResult{Manifests: []string{"m-1"}}, manifests: []string{"m-1"}},
		{name: "gone", saved: wire.SalvageFeedResult{Gone: true}, gone: []string{"risk/leg-1"}},
		{name: "not written", err: permanentError(job.ErrorOutput), unsaved: []string{"risk/leg-1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := setupScripted(t, nil)
			f.dies = true
			var asked []wire.SalvageFeedInput
			salvage := func(_ context.Context, in wire.SalvageFeedInput) (wire.SalvageFeedResult, error) {
				asked = append(asked, in)
				return test.saved, test.err
			}
			f.env.RegisterActivityWithOptions(salvage, activity.RegisterOptions{Name: "SalvageFeed"})
			_, err := f.run()
			report := f.failedReport(err, "")
			require.Len(t, asked, 1)
			require.Equal(t, "risk/leg-1", asked[0].Workflow)
			require.Equal(t, test.gone, report.Feed.Gone)
			require.Equal(t, test.unsaved, report.Unsaved)
			require.Equal(t, test.manifests, report.Manifests)
		})
	}
}
