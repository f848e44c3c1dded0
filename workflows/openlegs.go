package workflows

import (
	"fmt"
	"time"

	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stint-run/stint/workflows/internal/pool"
	"go.temporal.io/sdk/workflow"
)

// openLegs is how many legs are open at once, at most: as many as it takes to have the widest window in flight, each with
// a page of batches, and some that drain. Pages of pipelines whose stages split batches are smaller, and so is what is in flight then.
const openLegs = 24

// feedLegs is how many legs of a feed are open at once, at most. A sealed one stays open until its last item is done, so a slow item among
// many quick ones holds a leg: this many of them, each in another leg, do no harm. Limits that every leg is told cost the job's history
// 600 events then, and the legs that its next run continues with are some 100 KB of its 2 MB of input.
const feedLegs = 200

// openLeg is a leg that runs.
type openLeg struct {
	number   int
	reported wire.Counts       // the last that it has sent
	since    time.Time         // it has run for the job's present run since then
	answered bool              // it has sent them since the job has asked
	final    bool              // they do not change any more
	batches  int               // of its portion
	places   int               // of the window that it holds, as far as the job has heard
	dry      bool              // it has handed places back, so it needs no more of them
	bounds   []wire.StageBound // its shares of the windows of stages
	told     int               // how often it was sent limits
	gone     bool              // it has ended
	standsBy bool              // it takes no items yet
	legHandle
}

// legHandle is how the coordinator deals with an open leg, wherever that runs. No method blocks.
type legHandle interface {
	// id is the leg's workflow ID; "" inside the job.
	id() string
	// halt stops the leg.
	halt(notice wire.StopNotice)
	// limit sets the leg's limits, and asks for its counts if they say so.
	limit(l wire.LegLimits)
	// grant adds places to the leg's window, or takes some away. If the leg has ended before it gets them,
	// returned is called.
	grant(places int, returned func())
	// counts is what is known of the leg's items, given what it has reported last.
	counts(reported wire.Counts) wire.Counts
	// exact reports whether counts is up to date.
	exact() bool
	// kept notes what the leg has committed before it continued as new: that remains if its workflow fails.
	kept(r wire.LegResult)
	// addTo adds what is known of the leg to a report.
	addTo(r *job.Report)
	// pending is what the leg has accepted and not committed, so far as only the job can say it.
	// It returns inputs of the activity that commits it.
	pending() []any
}

// counted is when the leg's numbers were counted that the job has; now, if the job counts them itself, or they do not change any more.
func (l *openLeg) counted(now time.Time) time.Time {
	if l.exact() || l.final {
		return now
	}
	if at := l.reported.Sofar.At; at.After(l.since) {
		return at
	}
	return l.since
}

// startLeg gives the portion that was found to a leg. The first one runs inside the job if it is small.
func (c *coordinator) startLeg() {
	found := c.planning.found
	if found == nil || len(c.legs) >= found.mostLegs() || c.ending() || !c.hooks.ready {
		return // a portion that has been found is run even if the run is to continue as new
	}
	if len(c.legs) > 0 && !found.standing() && (c.limited() || c.places < 1) {
		return // the open legs have batches for all places
	}
	c.planning.found = nil
	c.work.open(*found)
}

// openPage gives a page of batches to a leg. Small pages are run inside the job if there will be few of them, or one after the other.
func (c *coordinator) openPage(p portion) {
	if (c.state.Report.Legs == 0 || p.waiting) && c.inside == nil && p.batches <= wire.InsideBatches {
		c.startInside(p)
		return
	}
	c.startChild(p)
}

// nextLeg is the number of the leg that is opened next: its workflow is named by it. The first one is 0 if it runs inside the job.
func (c *coordinator) nextLeg(inside bool) int {
	if !inside || c.state.Report.Legs > 0 {
		c.state.LastLeg++
	}
	return c.state.LastLeg
}

// prepare makes the input of the next leg, which has the number, and counts it. A leg takes no more places than it has
// batches: the others are for the next.
func (c *coordinator) prepare(number int, p portion) wire.LegInput {
	in := wire.LegInput{
		Ref: c.state.Ref, Spec: c.spec(), Version: c.in.Version, Base: c.state.Batches, Page: p.page, Previous: c.state.Heads,
		LegState: wire.LegState{
			Number: number, Tasks: p.tasks, Limits: c.limits(), Window: int(max(0, min(int64(c.places), p.batches))),
			Known: pool.Workers(c.state.Pool.Workers).Calls(), Last: c.allPlanned(),
		},
	}
	in.Limits.Legs = len(c.legs) + 1
	in.Limits.Stages = c.nextBounds(c.legs)
	c.state.Heads = nil
	c.places -= in.Window
	c.state.Batches += p.batches
	c.state.Report.Legs++
	return in
}

// opened adds a leg to those that are open.
func (c *coordinator) opened(in wire.LegInput, p portion, handle legHandle) *openLeg {
	l := &openLeg{number: in.Number, since: workflow.Now(c.ctx), answered: true, batches: int(p.batches), places: in.Window, bounds: in.Limits.Stages, legHandle: handle}
	c.legs = append(c.legs, l)
	return l
}

// legEnded takes what a leg has done.
func (c *coordinator) legEnded(ended *openLeg, result wire.LegResult) {
	for i := range c.legs {
		if c.legs[i] == ended {
			c.legs = append(c.legs[:i], c.legs[i+1:]...)
			break
		}
	}
	r := &c.state.Report
	c.state.Heads = append(c.state.Heads, result.Manifests...)
	c.state.Speed = result.Speed
	c.planning.rateKnown = true
	r.Planned, r.Discarded = max(r.Planned, result.Accepted), r.Discarded+result.Discarded
	r.Totals.Add(result.Totals)
	r.FirstError = r.FirstError.First(result.FirstError)
	c.addStragglers(result.Outcomes)
	forced := wire.ForcedEnds{Forced: r.Forced, ForcedOmitted: r.ForcedOmitted}
	forced.Add(result.ForcedEnds)
	r.Forced, r.ForcedOmitted = forced.Forced, forced.ForcedOmitted
	r.Workers = job.AddWorkers(r.Workers, result.Workers)
	r.Stages = job.AddStages(r.Stages, result.Stages)
	c.state.Fresh.Add(dispatch.CountsOf(result.Outcomes))
	c.work.ended(ended, result)
	c.left += result.Left
	c.places += result.Window
	pool.Of(&c.state.Pool).Hear(result.Pool...)
	c.resize()
	c.share()
	if result.Error != nil {
		c.fail(result.Error)
	}
	c.checkOutcomes(false)
	if c.limited() {
		c.sendLimits()
	}
	c.rebound()
}

func legSummary(in wire.LegInput, p portion) string {
	return fmt.Sprintf("leg %d · batches %s–%s", in.Number, text.Thousands(in.Base+1), text.Thousands(in.Base+p.batches))
}

// addStragglers adds what a leg has left behind to the report, as far as there is room for it.
func (c *coordinator) addStragglers(of wire.Outcomes) {
	r := &c.state.Report
	listed := min(len(of.Stragglers), job.MaxStragglers-len(r.Stragglers))
	r.Stragglers = append(r.Stragglers, of.Stragglers[:listed]...)
	r.StragglersOmitted += len(of.Stragglers) - listed + of.StragglersOmitted
}
