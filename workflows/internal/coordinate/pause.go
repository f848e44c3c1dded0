package coordinate

import (
	"go.temporal.io/sdk/workflow"

	"github.com/stint-run/stint/internal/wire"
)

// A job that is paused starts nothing that works on its items: its legs dispatch nothing (package dispatch), no leg of
// files is opened, and the output waits. What is in hand ends as usual, and so do hooks. There is no timer, and nothing
// is asked for again and again: it costs no event until it goes on. A stop, a deadline too, ends a pause.

// Paused reports whether the job is.
func (c *Coordinator) Paused() bool { return c.State.Report.PausedSince != nil }

// pause pauses the job, or has it go on. If it is ending, or finishing its output, it does neither.
func (c *Coordinator) pause(p wire.Pause) {
	if c.Ending() || c.finishing || p.Over != c.Paused() {
		return
	}
	memo := map[string]any{wire.MemoPaused: nil}
	if p.Over {
		c.endPause()
	} else {
		now := workflow.Now(c.Ctx)
		c.State.Report.PausedSince, memo[wire.MemoPaused] = &now, now
	}
	c.State.Held = c.Paused()
	c.enlist(c.milestone(c.overview()), memo)
	c.SendLimits()
	c.WakeUp()
}

// endPause ends a pause, if there is one. Legs stay held when the job ends: whatever they hear first, they dispatch
// nothing then.
func (c *Coordinator) endPause() {
	r := &c.State.Report
	if r.PausedSince != nil {
		r.PausedFor += workflow.Now(c.Ctx).Sub(*r.PausedSince)
		r.PausedSince = nil
	}
}
