package pipeline

import (
	"cmp"
	"maps"
	"slices"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Program are the steps of a pipeline, in their order. Each batch goes through them one after the other, and many
// batches at once. The members of an ensemble and the cases of a switch are steps one after the other, too: so a batch
// waits for no other one, a rest can begin anywhere, and what has become of a batch so far is one small value, which a
// stop can record.
type Program []Step

// Step is one execution that every batch of a pipeline goes through.
type Step struct {
	wire.Stage
	Pool string
	// Switch is the number of the switch, from 1, whose cases an execution of the step finds out; 0: none.
	Switch int
	// Items is how many items a batch of the step has at most; 0: any number.
	Items int64

	within []crossing   // the cases that it lies in
	keep   map[int]bool // parts that later steps read
}

// Adjust sets in the input of an execution of the step what its stage says.
func (s *Step) Adjust(in *wire.ProcessInput) {
	in.Stage = &s.Stage
	if s.Inner { // an item that fails here has not failed yet
		in.Hopeless = 0
	}
}

// crossing is a case of a switch.
type crossing struct{ number, index int }

// Compile returns the steps of stages that are valid and have their defaults. It is deterministic.
func Compile(all []job.Stage) Program {
	if len(all) == 0 {
		return nil
	}
	c := compiler{}
	end := c.sequence(all, "", nil, level{})
	if !end.isPart() {
		c.gather(end, end.Stage, end.pool, level{})
	}
	c.steps[len(c.steps)-1].Last = true
	for _, s := range c.steps[1:] {
		if first := &c.steps[0]; s.Items > 0 && (first.Cut == 0 || s.Items < first.Cut) {
			first.Cut = s.Items
		}
	}
	read := map[int]bool{}
	for i := len(c.steps) - 1; i >= 0; i-- {
		c.steps[i].keep = maps.Clone(read)
		if v := c.steps[i].Read; v != nil {
			v.EachPart(func(part int) { read[part] = true })
		}
	}
	return c.steps
}

// pieces is how many batches at most one is split into, over all steps: it has so many cuts.
const pieces = wire.MaxCuts + 1

// Page returns the most batches of a page of a job with these steps, at least 1, if its batches have at most so many
// items; 0: any number. One leg takes each of them through all steps, in pieces from the first step on that splits
// it. So a leg has no more executions, and carries no more, than one of a job with a single handler.
func (p Program) Page(batchItems int64) int {
	executions, each := int64(0), int64(1)
	for i := range p {
		if i > 0 && p[i].Items > 0 {
			each = pieces
			if batchItems > 0 {
				each = min(pieces, (batchItems+p[0].Cut-1)/p[0].Cut) // cuts are at least so far apart
			}
		}
		executions += each
	}
	if each > 1 {
		executions += executions / 4 // pieces carry their parcels as well
	}
	return int(max(1, wire.PageBatches/max(1, executions)))
}

// Next returns the index of the first step from one on that the items of a parcel have to go through.
func (p Program) Next(from int, routed []uint32) int {
	for from < len(p)-1 && p[from].passedBy(routed) {
		from++
	}
	return from
}

// passedBy reports whether the step lies in a case that none of the items belongs to.
func (s *Step) passedBy(routed []uint32) bool {
	return slices.ContainsFunc(s.within, func(c crossing) bool {
		return c.number <= len(routed) && routed[c.number-1] != 0 && routed[c.number-1]>>c.index&1 == 0
	})
}

// Split splits a batch into those that the step which its parcel is for gets.
func (p Program) Split(b wire.Batch) (all []wire.Batch) {
	most := p[b.From.Step].Items
	for most > 0 && b.Count > most {
		cut := wire.Cut{Item: b.First + most}
		if b.Length > 0 {
			cut = lastCut(b, most)
		}
		if cut.Item <= b.First || cut.Item >= b.End() {
			break
		}
		count, length := cut.Item-b.First, max(0, cut.Offset-b.Offset)
		all = append(all, ownCuts(b.Upto(count, length)))
		b = b.After(count, length)
	}
	if len(all) > 0 {
		b = ownCuts(b)
	}
	return append(all, b)
}

// ownCuts leaves out the cuts that are not within the batch: each piece carries its own.
func ownCuts(b wire.Batch) wire.Batch {
	parcel := *b.From
	parcel.Cuts = nil
	for _, cut := range b.From.Cuts {
		if cut.Item > b.First && cut.Item < b.End() {
			parcel.Cuts = append(parcel.Cuts, cut)
		}
	}
	return b.With(&parcel)
}

// lastCut returns the last cut of a batch that leaves at most so many items before it, or else the first one; zero:
// there is none.
func lastCut(b wire.Batch, most int64) (found wire.Cut) {
	for _, cut := range b.From.Cuts {
		if cut.Item > b.First && (found.Item == 0 || cut.Item <= b.First+most) {
			found = cut
		}
	}
	return found
}

// Advance returns what a batch becomes whose step has written a part, in the run given, and has found out the routed
// cases and the cuts: batches of later steps. rest is what the step has not done of the batch; nil: it has done all.
func (p Program) Advance(b wire.Batch, rest *wire.Batch, run string, written wire.Part, routed uint32, cuts []wire.Cut) []wire.Batch {
	step, before := 0, b.From
	if before != nil {
		step = before.Step
	}
	if rest != nil {
		b = b.Upto(rest.First-b.First, rest.Offset-b.Offset)
	}
	return p.Split(b.With(p.Parcel(step, before, run, written, routed, cuts)))
}

// Parcel returns what a batch's parcel is, nil at first, once a step of the run has written a part, and has found out
// the routed cases and the cuts.
func (p Program) Parcel(step int, before *wire.Parcel, run string, written wire.Part, routed uint32, cuts []wire.Cut) *wire.Parcel {
	s := &p[step]
	after := &wire.Parcel{Run: run, Cuts: cuts}
	if before != nil {
		after.Routed, after.Cuts = before.Routed, before.Cuts
		if s.Inner { // the items are still those that the run of before has counted
			after.Run = before.Run
		}
		for _, part := range before.Parts {
			if s.keep[part.Number] {
				after.Parts = append(after.Parts, part)
			}
		}
	}
	after.Parts = append(after.Parts, written)
	if s.Switch > 0 {
		after.Routed = slices.Clone(after.Routed)
		for len(after.Routed) < s.Switch {
			after.Routed = append(after.Routed, 0)
		}
		after.Routed[s.Switch-1] = routed | noCase
	}
	after.Step = p.Next(step+1, after.Routed)
	return after
}

// noCase makes the cases of items known, also if they belong to none.
const noCase = 1 << 31

// compiler collects steps.
type compiler struct {
	steps    Program
	switches int
}

// level is where a step lies.
type level struct {
	inner  bool
	within []crossing
}

// inside returns a level within an ensemble or a case.
func (p level) inside(cases ...crossing) level {
	return level{inner: true, within: slices.Concat(p.within, cases)}
}

// view is what the next step reads; nil: the items as the job got them.
type view struct {
	wire.View
	pool string // that has written the last of it
}

func (v *view) isPart() bool { return len(v.Zip) == 0 && v.Route == nil && !v.Values }

func (v *view) read() *wire.View {
	if v == nil {
		return nil
	}
	return &v.View
}

// add adds a step, and returns what it writes.
func (c *compiler) add(s Step, at level) *view {
	s.Inner, s.within, s.Writes = at.inner, at.within, len(c.steps)+1
	c.steps = append(c.steps, s)
	return &view{View: wire.View{Part: s.Writes}, pool: s.Pool}
}

// gather adds a step that writes what in has as a part.
func (c *compiler) gather(in *view, name, pool string, at level) *view {
	s := Step{Stage: wire.Stage{Name: name, Read: in.read(), Gather: true}, Pool: pool}
	if in != nil && in.Route != nil && in.Pick == nil {
		s.Switch = c.innermost(at)
	}
	return c.add(s, at)
}

// innermost returns the number of the switch that a place lies in, 0: none.
func (c *compiler) innermost(at level) int {
	if len(at.within) == 0 {
		return 0
	}
	return at.within[len(at.within)-1].number
}

func (c *compiler) sequence(stages []job.Stage, outer string, in *view, at level) *view {
	for i := range stages {
		in = c.stage(&stages[i], outer+stages[i].Name, in, at)
	}
	return in
}

func (c *compiler) stage(s *job.Stage, name string, in *view, at level) *view {
	switch {
	case len(s.Stages) > 0:
		return c.sequence(s.Stages, name+".", in, at)
	case len(s.Ensemble) > 0:
		return c.ensemble(s, name, in, at)
	case s.Switch != "":
		return c.route(s, name, in, at)
	}
	step := Step{Stage: wire.Stage{Name: name, Read: in.read()}, Pool: s.Pool, Items: s.BatchItems}
	if in != nil && in.Route != nil && in.Pick == nil {
		step.Switch = c.innermost(at)
	}
	return c.add(step, at)
}

// part is in as one part: several steps read it.
func (c *compiler) part(s *job.Stage, name string, in *view, at level) *view {
	switch {
	case in == nil:
		return c.gather(nil, name, job.Spec{Stages: []job.Stage{*s}}.StagePools()[0].Pool, at)
	case in.isPart():
		return in
	}
	return c.gather(in, cmp.Or(in.Stage, name), in.pool, at)
}

func (c *compiler) ensemble(s *job.Stage, name string, in *view, at level) *view {
	in = c.part(s, name, in, at)
	out := &view{View: wire.View{Part: in.Part, KeepErrors: s.KeepErrors, Stage: name}}
	for i := range s.Ensemble {
		m := &s.Ensemble[i]
		v := c.stage(m, name+"."+m.Name, &view{View: wire.View{Part: in.Part, Values: true}, pool: in.pool}, at.inside())
		out.Zip, out.pool = append(out.Zip, v.View), v.pool
	}
	return out
}

func (c *compiler) route(s *job.Stage, name string, in *view, at level) *view {
	in = c.part(s, name, in, at)
	c.switches++
	number := c.switches
	route := &wire.Route{Field: s.Switch, Else: s.Default != nil}
	if !s.ByField() {
		router := Step{Stage: wire.Stage{Name: name, Read: &wire.View{Part: in.Part, Values: true}}, Pool: s.Switch}
		route.Field, route.Answer = "", c.add(router, at.inside()).Part
	}
	cases := make([]*job.Stage, 0, len(s.Cases)+1)
	for i := range s.Cases {
		route.Cases = append(route.Cases, s.Cases[i].Value)
		cases = append(cases, &s.Cases[i].Stage)
	}
	if s.Default != nil {
		cases = append(cases, s.Default)
	}
	out := &view{View: wire.View{Part: in.Part, Route: route, Stage: name}}
	for i, way := range cases {
		only := &view{View: wire.View{Part: in.Part, Route: route, Case: i}, pool: in.pool}
		v := c.stage(way, name+"."+way.Name, only, at.inside(crossing{number, i}))
		out.Pick, out.pool = append(out.Pick, v.View), v.pool
	}
	return out
}
