// Package stagewindow decides which batches of a pipeline may start: within the windows of their stages, and only as
// far ahead of a slow stage as keeps it busy. It is pure: workflows replay it.
package stagewindow

import "github.com/stint-run/stint/internal/wire"

// Gate is what the steps of one leg have under way. A step may start a batch unless its stage has its share in flight,
// or a later step has as many batches waiting as its window. The second rule keeps what lies between two steps below
// two windows: one that waits, and what is in flight.
//
// There is no deadlock: of all steps that batches wait for, no later one holds the last back. So it starts, unless it
// waits for some time, or its stage has its share in flight, and what is in flight ends by itself. A leg without a
// share waits for an older one, which has it.
type Gate struct {
	stages  []string // of the steps
	between func(step int) int
	open    bool

	places  int
	bounds  []wire.StageBound
	flying  map[string]int  // by stage
	waiting []int           // by step
	only    map[string]bool // the stages that it lets through; nil: all
}

// New makes the gate of steps that belong to the stages named. between returns how many batches that have not started
// wait for a step, the first one excepted.
func New(stages []string, between func(step int) int) *Gate {
	return &Gate{stages: stages, between: between, waiting: make([]int, len(stages)), flying: map[string]int{}}
}

// Open has the gate let everything through from now on.
func (g *Gate) Open() { g.open = true }

// Begin takes a new look at the leg: it has so many places in its window, and nothing that the gate does not know of is
// in flight or has returned.
func (g *Gate) Begin(places int, bounds []wire.StageBound) {
	g.places, g.bounds, g.only = places, bounds, nil
	clear(g.flying)
	for step := range g.waiting {
		g.waiting[step] = 0
		if step > 0 {
			g.waiting[step] = g.between(step)
		}
	}
}

// Only has it let only these stages through, until the next look.
func (g *Gate) Only(stages map[string]bool) { g.only = stages }

// Flies counts a batch of a step that is in flight.
func (g *Gate) Flies(step int) { g.flying[g.stages[step]]++ }

// Returned counts a batch that has started before, and waits for a step, perhaps until some time.
func (g *Gate) Returned(step int) { g.waiting[step]++ }

// Free reports whether a batch may start a step now.
func (g *Gate) Free(step int) bool {
	switch {
	case g.open:
		return true
	case g.only != nil && !g.only[g.stages[step]]:
		return false
	}
	if b := g.bound(step); b != nil && g.flying[g.stages[step]] >= b.Share {
		return false
	}
	for later := step + 1; later < len(g.waiting); later++ {
		enough := g.places
		if b := g.bound(later); b != nil {
			enough = min(enough, b.Window)
		}
		if g.waiting[later] >= max(1, enough) {
			return false
		}
	}
	return true
}

func (g *Gate) bound(step int) *wire.StageBound {
	for i := range g.bounds {
		if g.bounds[i].Stage == g.stages[step] {
			return &g.bounds[i]
		}
	}
	return nil
}

// Held is what an open leg has of the windows of stages.
type Held struct {
	Places int // of the job's window: it never has more batches in flight
	Bounds []wire.StageBound
}

// Share returns the bounds of the next leg, of stages whose windows are set: what older ones cannot use. So all have
// their window together, whatever is under way, and the oldest leg always gets on.
func Share(windows []wire.StageBound, older []Held) []wire.StageBound {
	var shares []wire.StageBound
	for _, b := range windows {
		b.Share = b.Window
		for _, leg := range older {
			for _, held := range leg.Bounds {
				if held.Stage == b.Stage {
					b.Share -= min(held.Share, max(0, leg.Places))
				}
			}
		}
		b.Share = max(0, b.Share)
		shares = append(shares, b)
	}
	return shares
}
