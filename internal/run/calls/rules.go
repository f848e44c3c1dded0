package calls

import (
	"fmt"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Rules say for some failures how often, and after which waits, their items are tried: see [job.Retry]. They hold for
// whatever has failed, an item or a call as a whole, in place of all other limits. Nil has none. Rules are safe for
// concurrent use.
type Rules struct {
	stage string
	all   []Rule
}

// Rule is one of them.
type Rule struct {
	Attempts int           // of an item, or of a call before it is halved; 1: the first failure is final
	Backoff  time.Duration // before the first further try; 0: that of the job
	matches  func(*job.Failure) bool
}

// NewRules returns those that limits have for calls in a stage; nil if there are none.
func NewRules(limits wire.CallLimits, stage string) (*Rules, error) {
	if !limits.Ruled() {
		return nil, nil
	}
	r := &Rules{stage: stage}
	if limits.Final != "" {
		matches, err := limits.Final.Matcher()
		if err != nil {
			return nil, fmt.Errorf("failures that are final: %w", err)
		}
		r.all = append(r.all, Rule{Attempts: 1, matches: matches})
	}
	for _, rule := range limits.Retry {
		matches, attempts, backoff, err := rule.Rule()
		if err != nil {
			return nil, fmt.Errorf("rule %q: %w", rule, err)
		}
		r.all = append(r.all, Rule{attempts, backoff, matches})
	}
	return r, nil
}

// Of returns the first rule that selects a fault, which may be nil; nil: none does.
func (r *Rules) Of(f *Fault) *Rule {
	if r == nil || f == nil {
		return nil
	}
	failure := job.Failure{Stage: r.stage, Kind: f.Kind, Error: f.Err}
	for i := range r.all {
		if r.all[i].matches(&failure) {
			return &r.all[i]
		}
	}
	return nil
}

// delay returns the wait before the next try after a fault, so many tries having been made; spread makes the wait of a
// rule so many times as long, 0 as long as it is.
func (r *Rules) delay(f *Fault, tries int, backoff time.Duration, spread float64) time.Duration {
	if rule := r.Of(f); rule != nil && rule.Backoff > 0 {
		backoff = rule.Backoff
		if spread > 0 {
			backoff = time.Duration(float64(backoff) * spread)
		}
	}
	return retryDelay(backoff, tries)
}

// Spread makes all waits before further tries so many times as long.
func (c *Call) Spread(factor float64) {
	c.Backoff = time.Duration(float64(c.Backoff) * factor)
	c.spread = factor
}

// Failed returns the outcome of an item that has failed with the fault, so many times by now. It is called again if it
// has further tries: it has most in all, unless a rule of the job says how many. It is also called again if the fault
// asks for that, which costs no try.
func (c *Call) Failed(f *Fault, tries, most int) Outcome {
	if f.After > 0 {
		return Outcome{Fault: f, Tries: tries - 1, Later: true, Apart: true}
	}
	rule := c.rules.Of(f)
	if rule != nil {
		most = rule.Attempts
	}
	return Outcome{Fault: f, Tries: tries, Later: tries < most, Apart: rule != nil}
}

// postponed has items called again later whose call has failed as a whole, if a rule, which may be nil, gives them
// further tries; otherwise it returns false. made is how many calls have been made of them that are not among their
// tries.
func (c *Caller) postponed(rule *Rule, items []Item, fault *Fault, made int) bool {
	if rule == nil || c.Trials == nil || c.tried(items)+made >= rule.Attempts {
		return false
	}
	c.Retries++
	now := time.Now()
	for _, item := range items {
		trial := c.Trials.Of(item.Ordinal)
		trial.Tries += made
		trial.Due = now.Add(c.Rules.delay(fault, trial.Tries, c.Limits.Backoff, 0))
		c.Trials.set(item.Ordinal, trial)
		c.Answer.hold(fault)
	}
	return true
}
