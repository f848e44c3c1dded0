package workflows

import (
	"fmt"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/workflow"
)

// commit makes what has been accepted count. It goes on after a stop and survives a cancellation.
func (l *leg) commit() LegResult {
	l.noteStragglers()
	l.account()
	l.receiveGrants() // what has arrived until the very end
	l.result.Window = l.window
	return l.result
}

func (l *leg) account() {
	l.result.Left = 0
	for _, t := range l.waiting {
		l.result.Left += t.Count
	}
	if len(l.accepted) == 0 {
		l.result.Manifests = l.in.Previous
		return
	}
	ctx, _ := workflow.NewDisconnectedContext(l.ctx)
	ctx = ioOptions(ctx, l.in.Spec, fmt.Sprintf("commit %d parts", len(l.accepted)))
	var committed activities.CommitResult
	err := executeIO(ctx, acts.Commit, activities.CommitInput{
		Ref: l.in.Ref, Leg: l.in.Number, Previous: l.in.Previous, Entries: l.accepted,
	}, &committed)
	if err != nil {
		if l.result.Error == nil {
			l.result.Error = jobError(err)
		}
		l.result.Manifests, l.result.Totals = l.in.Previous, l.in.Sofar.Totals
		for _, e := range l.accepted {
			l.result.Left += e.Count
		}
		return
	}
	l.result.Manifests = []string{committed.Manifest}
}

func (l *leg) progress() (job.Progress, error) {
	return job.Progress{
		Totals: l.result.Totals, Waiting: len(l.waiting) + l.delayed, InFlight: len(l.flying),
		FirstError: l.result.FirstError, LastFailure: l.lastError, Workers: l.result.Workers, Oldest: l.oldest(),
	}, nil
}
