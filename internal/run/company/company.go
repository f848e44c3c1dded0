// Package company says which calls may be in hand in a process together. After a process has died with several calls
// in hand, any of them may have caused that: they are made again in halves, each in the company of its half
// alone, until one of them dies alone. So one bad call among n costs at most 2·log2(n) further rounds of calls.
package company

// Group is calls that may be made together, but with no others.
type Group struct {
	order int64 // of the groups that wait, the one with the lowest order is next; less than 0 for a half
}

// Narrows reports whether the group narrows down which of several calls has caused a death. A nil group does not.
func (g *Group) Narrows() bool { return g != nil && g.order < 0 }

// Hall is where the calls of one process are in hand, or wait to be. The zero value is empty. It is not safe for
// concurrent use.
type Hall struct {
	inHand      int
	turn        *Group         // whose calls are in hand; nil: of none
	waiting     map[*Group]int // calls
	first, last int64          // orders so far
}

// Halves returns the groups of the first and of the second half of calls that may have caused a death together. They
// come before all other groups.
func (h *Hall) Halves() (first, second *Group) {
	h.first -= 2
	return &Group{h.first}, &Group{h.first + 1}
}

// Alone returns the group of one call that has died alone. It comes after all other groups.
func (h *Hall) Alone() *Group {
	h.last++
	return &Group{h.last}
}

// Wait notes that a call of the group, which may be nil for none, waits until it may begin.
func (h *Hall) Wait(g *Group) {
	if g == nil {
		return
	}
	if h.waiting == nil {
		h.waiting = map[*Group]int{}
	}
	h.waiting[g]++
}

// GiveUp notes that it does not wait any more.
func (h *Hall) GiveUp(g *Group) {
	if g == nil {
		return
	}
	if h.waiting[g]--; h.waiting[g] == 0 {
		delete(h.waiting, g)
	}
}

// May reports whether a call of the group, which waits, may begin now.
func (h *Hall) May(g *Group) bool {
	switch {
	case g == nil:
		return h.turn == nil && len(h.waiting) == 0
	case h.inHand > 0:
		return h.turn == g
	}
	for other := range h.waiting {
		if other.order < g.order {
			return false
		}
	}
	return true
}

// Begin notes that the call has begun. It does not wait any more.
func (h *Hall) Begin(g *Group) {
	h.GiveUp(g)
	h.inHand++
	h.turn = g
}

// End notes that a call has ended. It reports whether others may begin that could not before.
func (h *Hall) End() bool {
	if h.inHand--; h.inHand > 0 {
		return false
	}
	was := h.turn
	h.turn = nil
	return was != nil || len(h.waiting) > 0
}
