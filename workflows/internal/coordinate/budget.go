package coordinate

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
)

// A job's budget is that of all its runs. It is shared out to the open legs, which share it out to their batches
// (package dispatch). While there is one, a leg of files starts only after the one before has ended, so that there is
// one to have it. Those of a feed have equal parts of what is left as far as the job knows; one that has spent its part
// says so, and all get new ones.

// hasBudget reports whether the job has one.
func (c *Coordinator) hasBudget() bool { return c.Spec().MaxCost > 0 || c.Spec().MaxTokens > 0 }

// spentBy returns what a leg has used, as far as the job knows.
func (c *Coordinator) spentBy(l *OpenLeg) job.Usage {
	if l.ID() == "" && c.Inside != nil {
		return c.Inside.Sofar().Totals.Spent()
	}
	return l.Reported.Sofar.Spent
}

// budget returns that of a leg which has used so much, if so many legs share what is left; nil: the job has none.
func (c *Coordinator) budget(used job.Usage, legs int) *wire.Budget {
	if !c.hasBudget() {
		return nil
	}
	spent := c.State.Report.Spent()
	for _, l := range c.Legs {
		spent.Add(c.spentBy(l))
	}
	var b wire.Budget
	part := func(most, spent, used int64) int64 {
		if most == 0 {
			return 0
		}
		left := most - spent
		b.Spent = b.Spent || left <= 0
		return max(1, used+max(0, left)/int64(max(1, legs)))
	}
	b.Cost = job.Money(part(int64(c.Spec().MaxCost), int64(spent.Cost), int64(used.Cost)))
	b.Tokens = part(c.Spec().MaxTokens, spent.Tokens(), used.Tokens())
	return &b
}

// shortOf takes in that a leg has spent its part of the budget.
func (c *Coordinator) shortOf() {
	if b := c.budget(job.Usage{}, 1); b != nil && b.Spent {
		c.Fail(dispatch.BudgetSpent(c.Spec()))
		return
	}
	c.SendLimits()
}

// awaitDeadline has the job stop at its deadline, as it is now.
func (c *Coordinator) awaitDeadline() {
	if c.cancelDeadline != nil {
		c.cancelDeadline()
		c.cancelDeadline = nil
	}
	at, err := c.Spec().DeadlineAfter(c.State.Report.Started)
	if err != nil || at.IsZero() || c.Ending() {
		return
	}
	ctx, cancel := workflow.WithCancel(c.Ctx)
	c.cancelDeadline = cancel
	timer := workflow.NewTimer(ctx, max(0, at.Sub(workflow.Now(c.Ctx))))
	c.Selector.AddFuture(timer, func(f workflow.Future) {
		if f.Get(c.Ctx, nil) == nil {
			c.stop(job.Stop{Reason: fmt.Sprintf("the deadline, %s, is over: resume the job with a later one", at.UTC().Format(time.RFC3339))})
		}
	})
}
