package coordinate

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
)

// A job's budget is that of all its runs. Each open leg has a part of it, and shares that out to its batches (package
// dispatch). The parts of all legs and what ended legs have used add up to the budget at most, whatever has been reported:
// what a leg does not use of its part is free when it has ended. A leg of files has all that is left, because it is alone
// while there is a budget. One of a feed gets half of what is left, and again whenever it has spent its part and says so.

// hasBudget reports whether the job has one.
func (c *Coordinator) hasBudget() bool { return c.Spec().MaxCost > 0 || c.Spec().MaxTokens > 0 }

// left returns what no leg has of the budget: below 0 if legs have more than it.
func (c *Coordinator) left() wire.Budget {
	spent := c.State.Report.Spent()
	left := wire.Budget{Cost: c.Spec().MaxCost - spent.Cost, Tokens: c.Spec().MaxTokens - spent.Tokens()}
	for _, l := range c.Legs {
		left.Cost, left.Tokens = left.Cost-l.Budget.Cost, left.Tokens-l.Budget.Tokens
	}
	return left
}

// leastPart of the budget is given at once, if there is so much left of it.
const leastPart = 16

// portion returns what a leg has that has had so much of the budget, of which so much is left: all of it if the leg is
// alone, or a part if it needs more. What is missing is taken from it.
func portion(has, left, budget int64, alone, more bool) int64 {
	switch {
	case alone || left < 0:
		return max(0, has+left)
	case more:
		return has + min(left, max(1, left/2, budget/leastPart))
	}
	return has
}

// allot sets a leg's part of the budget. It reports whether that has grown.
func (c *Coordinator) allot(l *OpenLeg) (grown bool) {
	if !c.hasBudget() {
		l.Budget, l.short = wire.Budget{}, false
		return false
	}
	left, before := c.left(), l.Budget
	alone := !c.traits.LegsOverlap && !slices.ContainsFunc(c.Legs, func(other *OpenLeg) bool { return other != l })
	if most := int64(c.Spec().MaxCost); most > 0 {
		l.Budget.Cost = job.Money(portion(int64(before.Cost), int64(left.Cost), most, alone, l.short))
	}
	if most := c.Spec().MaxTokens; most > 0 {
		l.Budget.Tokens = portion(before.Tokens, left.Tokens, most, alone, l.short)
	}
	grown = l.Budget.Cost > before.Cost || l.Budget.Tokens > before.Tokens
	l.short = l.short && !grown
	return grown
}

// budgetOf returns a leg's part of the budget, for its limits; nil: there is no budget.
func (c *Coordinator) budgetOf(l *OpenLeg) *wire.Budget {
	c.allot(l)
	if !c.hasBudget() {
		return nil
	}
	b := l.Budget
	b.None = b.Cost <= 0 && c.Spec().MaxCost > 0 || b.Tokens <= 0 && c.Spec().MaxTokens > 0
	return &b
}

// ShortLeg takes in that the leg with a number has spent its part of the budget.
func (c *Coordinator) ShortLeg(number int) {
	i := slices.IndexFunc(c.Legs, func(l *OpenLeg) bool { return l.Number == number })
	if i >= 0 && c.hasBudget() && !c.Ending() {
		c.short(c.Legs[i])
	}
}

// short gives a leg more of the budget. If nothing is left it waits for the end of another leg, unless all that take items
// do: then the budget is spent.
func (c *Coordinator) short(l *OpenLeg) {
	l.short = true
	if c.allot(l) {
		c.restrict(l, c.Limits())
		return
	}
	for _, other := range c.Legs {
		if !other.short && !other.StandsBy {
			return
		}
	}
	c.Fail(dispatch.BudgetSpent(c.Spec()))
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
		if f.Get(c.Ctx, nil) == nil && !c.finishing {
			c.stop(job.Stop{Reason: fmt.Sprintf("the deadline, %s, is over: resume the job with a later one", at.UTC().Format(time.RFC3339))})
		}
	})
}
