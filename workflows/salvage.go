package workflows

import (
	"errors"
	"fmt"
	"time"

	"github.com/stint-run/stint/activities"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// pending is what the legs inside the job have accepted and not committed: where Temporal ends the
// job, a resumed one begins with it.
func (j *jobRun) pending() ([]activities.CommitInput, error) {
	var all []activities.CommitInput
	for _, l := range j.legs {
		switch {
		case l.inline != nil:
			all = append(all, l.inline.pending())
		case !l.begun():
			all = append(all, activities.CommitInput{Ref: j.state.Ref, Leg: l.number, Previous: l.previous})
		}
	}
	return all, nil
}

// begun reports whether a leg in a child workflow is known to run, or to have run. Until then its
// workflow ID may be that of a leg of an earlier run, which must not be asked for this job's.
func (l *openLeg) begun() bool { return l.child.GetChildWorkflowExecution().IsReady() }

// salvage commits what an earlier run had accepted. Its parts stay below that run's prefix. Where that
// cannot be done, what it had committed itself is kept.
func (j *jobRun) salvage() error {
	var failed error
	for i, in := range j.in.Salvage {
		if len(in.Entries) == 0 || failed != nil {
			j.in.Resume = append(j.in.Resume, in.Previous...)
			continue
		}
		var committed activities.CommitResult
		ctx := ioOptions(j.ctx, j.spec(), fmt.Sprintf("commit %d parts of an earlier run, %d of %d", len(in.Entries), i+1, len(j.in.Salvage)))
		if failed = executeIO(ctx, acts.Commit, in, &committed); failed != nil {
			j.in.Resume = append(j.in.Resume, in.Previous...)
			continue
		}
		j.in.Resume = append(j.in.Resume, committed.Manifest)
	}
	if len(j.in.Salvage) > 0 {
		j.in.Salvage = nil
		j.state.Heads, j.state.Report.Manifests = j.in.Resume, j.in.Resume
	}
	return failed
}

const (
	// firstPatience is for how long nobody may take the first plan before the job says that no
	// worker serves its pool; it doubles up to maxPatience, and the plan is offered again.
	firstPatience = 5 * time.Second
	maxPatience   = time.Minute
)

// plan has a page planned. While nobody takes the first one, the job says so.
func (j *jobRun) plan(ctx workflow.Context, in activities.PlanInput, result *activities.PlanResult) error {
	if j.in.Version < 1 || j.state.Pages > 0 {
		return executeIO(ctx, acts.Plan, in, result)
	}
	for patience := firstPatience; ; patience = min(2*patience, maxPatience) {
		err := executeIO(workflow.WithScheduleToStartTimeout(ctx, patience), acts.Plan, in, result)
		if !notTaken(err) {
			j.state.Report.Unserved = false
			return err
		}
		j.state.Report.Unserved = true
		j.wake.SendAsync(nil)
	}
}

// notTaken reports whether no worker has taken an activity in time.
func notTaken(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout) && timeout.TimeoutType() == enums.TIMEOUT_TYPE_SCHEDULE_TO_START
}
