package dispatch

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/throttle"
)

// Every batch gets a share of what is left of the leg's budget, and of its limits of requests and tokens. The shares of
// all batches in flight add up to these at most, so they hold whatever the workers do. What a batch has not used of the
// budget is shared out again when it has ended, and its limits already when it has begun its last request: the answers
// of slow services would hold them up otherwise.

// share returns what the next batch may use; nil: nothing limits that. ok is false if the batch has to wait for the end
// of another one. busy: others have the limits of requests and tokens, so that it must be one of a stage that makes none.
func (d *Dispatcher) share() (s *wire.Share, busy, ok bool) {
	l := d.rate.limits
	if l.Budget == nil && l.Requests == 0 && l.Tokens == 0 {
		return nil, false, true
	}
	s = &wire.Share{Each: d.each("")}
	if !d.shareBudget(s) {
		return nil, false, false
	}
	busy = !d.shareRates(s)
	return s, busy, !busy || d.Gate != nil && len(d.rate.turnless) > 0
}

// takeTurn has a batch of a stage take the share's turn, so that others take the next one. A stage that makes no requests
// leaves it to them, and is limited to next to nothing, in case that it makes some after all.
func (d *Dispatcher) takeTurn(s *wire.Share, stage string) (taken bool) {
	switch {
	case s == nil || s.Requests == 0 && s.TokenRate == 0:
		return false
	case d.rate.turnless[stage]:
		s.Requests, s.TokenRate, s.First = min(s.Requests, 1), min(s.TokenRate, 1), wire.NextTurn{}
		return false
	}
	if len(d.rate.turns) > 0 {
		d.rate.turns = d.rate.turns[1:]
	}
	return true
}

// each returns what an item has used so far, on average: in a stage, or in all together if its name is empty.
func (d *Dispatcher) each(stage string) job.Usage {
	for _, s := range d.sofar.Stages {
		if s.Stage == stage {
			return s.Usage.Per(s.Done)
		}
	}
	return d.sofar.Totals.Usage.Per(d.sofar.Totals.Done() + d.sofar.Totals.Between)
}

// batchItems returns how many items a batch has had so far, on average.
func (d *Dispatcher) batchItems() int64 {
	t := d.sofar.Totals
	return max(1, (t.Done()+t.Between)/max(1, t.Batches))
}

// shareBudget sets what the next batch may use of the budget.
func (d *Dispatcher) shareBudget(s *wire.Share) bool {
	b := d.rate.limits.Budget
	if b == nil {
		return true
	}
	left := d.budgetLeft()
	if b.Cost > 0 && left.Cost <= 0 || b.Tokens > 0 && left.Tokens <= 0 || b.None {
		if len(d.flying) == 0 {
			d.budgetSpent()
		}
		return false
	}
	cost, enough := d.part(int64(left.Cost), int64(s.Each.Cost))
	tokens, enoughTokens := d.part(left.Tokens, s.Each.Tokens())
	if len(d.flying) > 0 && (b.Cost > 0 && !enough || b.Tokens > 0 && !enoughTokens) {
		return false
	}
	if b.Cost > 0 {
		s.Cost = job.Money(cost)
	}
	if b.Tokens > 0 {
		s.Tokens = tokens
	}
	return true
}

// part returns the next batch's part of what is left, for an item that uses so much: as much as any other batch for
// which there is a place could have, or half as much again as it seems to need. enough: that is half of what it needs.
func (d *Dispatcher) part(left, each int64) (part int64, enough bool) {
	need := each * d.batchItems()
	places := int64(max(1, d.window.places-len(d.flying)))
	part = min(left, max(left/(places+1), need/2*3, 1))
	return part, part >= need/2
}

// budgetLeft returns what is left of the budget, beside what is shared out to batches in flight.
func (d *Dispatcher) budgetLeft() wire.Budget {
	b, used := *d.rate.limits.Budget, d.sofar.Totals.Spent()
	b.Cost, b.Tokens = b.Cost-used.Cost, b.Tokens-used.Tokens()
	for _, t := range d.flying {
		b.Cost, b.Tokens = b.Cost-t.share.Cost, b.Tokens-t.share.Tokens
	}
	return b
}

// budgetSpent asks the job for more, once for each limits that it has sent. It ends if there is no more.
func (d *Dispatcher) budgetSpent() {
	if d.rate.asked {
		return
	}
	d.rate.asked = true // before the job answers, as it does at once to the leg inside it
	c := d.counts()
	c.Short = true
	d.Link.Counted(c)
}

// BudgetSpent is the error of a job whose budget is spent: it stops in order.
func BudgetSpent(spec job.Spec) *job.Error {
	var budget string
	if spec.MaxCost > 0 {
		budget = fmt.Sprintf("max-cost %s", spec.MaxCost)
	}
	if spec.MaxTokens > 0 {
		if budget != "" {
			budget += " or "
		}
		budget += fmt.Sprintf("max-tokens %d", spec.MaxTokens)
	}
	return &job.Error{Type: wire.ErrorBudget, Message: budget + " is spent: resume the job with more"}
}

// shareRates sets the next batch's part of the limits of requests and tokens. There are no more batches in flight than
// these need, by what an item has taken so far without waiting for its turn.
func (d *Dispatcher) shareRates(s *wire.Share) bool {
	l, t := d.rate.limits, d.sofar.Totals
	legs := job.Rate(max(1, l.Legs))
	share := func(limit job.Rate) job.Rate {
		if limit > 0 {
			return max(1, limit/legs)
		}
		return 0
	}
	requests, tokens := share(l.Requests), share(l.Tokens)
	if l.Requests == 0 && l.Tokens == 0 {
		return true
	}
	batches := 1
	need := func(aMinute job.Rate) {
		batches = max(batches, throttle.Needed(aMinute/60, d.rate.effort.Each(), d.window.places))
	}
	values := max(1, d.rate.values)
	if l.Requests > 0 {
		need(times(times(requests, values), job.Rate(max(1, t.CallItems/max(1, t.Calls)))))
	}
	if each := s.Each.Tokens(); l.Tokens > 0 && each > 0 {
		need(times(tokens, values) / job.Rate(each))
	}
	part := func(limit, used job.Rate) (job.Rate, bool) {
		if limit == 0 {
			return 0, true
		}
		part := max(1, limit/job.Rate(batches))
		return part, used == 0 || used+part <= limit
	}
	s.Requests, _ = part(requests, 0) // also of one beside the limits: none would be no limit
	s.TokenRate, _ = part(tokens, 0)
	used, held := wire.Share{}, 0
	for _, t := range d.flying {
		switch {
		case t.begun || d.rate.turnless[t.Stage]:
			continue
		case l.Requests > 0 && t.share.Requests == 0, l.Tokens > 0 && t.share.TokenRate == 0:
			return false // it started before there was a limit
		}
		used.Requests, used.TokenRate = used.Requests+t.share.Requests, used.TokenRate+t.share.TokenRate
		held++
	}
	_, ok := part(requests, used.Requests)
	if _, okTokens := part(tokens, used.TokenRate); !ok || !okTokens {
		return false
	}
	d.mergeTurns(batches - held)
	s.By, s.First = d.Spec.LimitBy, d.nextTurn(batches)
	return true
}

// times returns a product, or the highest rate if that is higher.
func times(rate, n job.Rate) job.Rate {
	if rate > limits.MaxRate/max(1, n) {
		return limits.MaxRate
	}
	return rate * n
}

// noteTurns takes in what an execution has made of its share of limits, which is free now.
func (d *Dispatcher) noteTurns(t task, r wire.ProcessResult) {
	if t.share.Requests == 0 && t.share.TokenRate == 0 {
		return
	}
	if t.turn && !t.begun {
		d.freeTurn(r.NextTurn)
	}
	if r.Values > 0 {
		d.rate.values = job.Rate(min(r.Values, maxValues))
	}
	d.noteTurnless(t.Stage, r)
}

// noteTurnless takes in whether a stage makes requests. One that has made one does, and one that has results without any
// does not. Items that were carried or reused, that wait for an equal one, or that have failed, show nothing: no request may have been due for them.
func (d *Dispatcher) noteTurnless(stage string, r wire.ProcessResult) {
	own := r.Entry.OK - r.Entry.Reused - r.Entry.Waiting - (r.Carried.Items - r.Carried.Failed)
	if stage == "" || d.rate.requesting[stage] || r.Turns == 0 && own <= 0 {
		return
	}
	if d.rate.turnless == nil {
		d.rate.turnless, d.rate.requesting = map[string]bool{}, map[string]bool{}
	}
	if delete(d.rate.turnless, stage); r.Turns > 0 {
		d.rate.requesting[stage] = true
	} else {
		d.rate.turnless[stage] = true
	}
}

// maxValues bounds the values that count for how many batches a limit needs.
const maxValues = 10_000

// receiveBegun takes in which executions have begun their last request: what they hold of limits is free.
func (d *Dispatcher) receiveBegun() {
	ReceiveEach(d.ctx, wire.SignalBegun, func(begun wire.Begun) {
		i := slices.IndexFunc(d.flying, func(t *task) bool { return t.activityID() == begun.Activity })
		if i >= 0 && d.flying[i].turn && !d.flying[i].begun {
			d.flying[i].begun = true
			d.freeTurn(begun.NextTurn)
			d.Wake()
		}
	})
}

// freeTurn is a share of limits that is free, and when its next request may be begun, from then on.
type freeTurn struct {
	at   time.Time
	next wire.NextTurn
}

// from returns when its next request may be begun, and when those of values may that have a turn of their own, from a
// time on.
func (f freeTurn) from(now time.Time) (turn time.Duration, keys []wire.KeyTurn) {
	since := now.Sub(f.at)
	keys = f.next.Keys.All()
	for i := range keys {
		keys[i].Turn -= since
	}
	return max(-maxLate, f.next.Turn-since), keys
}

// freeTurn notes that the share of a batch is free.
func (d *Dispatcher) freeTurn(next wire.NextTurn) {
	d.rate.turns = append(d.rate.turns, freeTurn{workflow.Now(d.ctx), next})
}

// mergeTurns leaves no more shares free than so many batches take, and at least one. The others are merged into that, with
// the latest turn of each value: if they waited until a batch takes them, values could use one after the other.
func (d *Dispatcher) mergeTurns(batches int) {
	now, turns := workflow.Now(d.ctx), &d.rate.turns
	for d.Spec.LimitBy != "" && len(*turns) > max(1, batches) {
		turn, keys := (*turns)[0].from(now)
		other, more := (*turns)[1].from(now)
		(*turns)[1] = freeTurn{now, wire.NextTurns(max(turn, other), append(keys, more...), wire.MaxKeyTurns)}
		*turns = (*turns)[1:]
	}
}

// nextTurn returns when the next request may be begun of the share that was free first, from now on. There are so many
// batches in flight at most: what all of them are given together is bounded.
func (d *Dispatcher) nextTurn(batches int) wire.NextTurn {
	if len(d.rate.turns) == 0 {
		return wire.NextTurn{}
	}
	turn, keys := d.rate.turns[0].from(workflow.Now(d.ctx))
	return wire.NextTurns(turn, keys, max(wire.LeastKeyTurns, wire.MaxKeyTurns/batches))
}

// maxLate is how much of the time between two batches is made up for.
const maxLate = time.Second

// lost counts what an execution has used that has failed, or was lost.
func (d *Dispatcher) lost(err error) {
	hint := lastHint(err)
	switch {
	case hint == nil:
	case d.Recover != nil: // what it has done by then counts
		d.sofar.Totals.Add(job.Totals{Usage: hint.Usage})
	default:
		d.sofar.Totals.Add(job.Totals{LostUsage: hint.Usage})
	}
}

// shareOf returns a share as a task has it.
func shareOf(s *wire.Share) wire.Share {
	if s == nil {
		return wire.Share{}
	}
	return *s
}
