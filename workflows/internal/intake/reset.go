package intake

import (
	"time"

	"github.com/stint-run/stint/internal/wire"
)

// Session is the open one.
func (in *Intake) Session() int64 { return in.session }

// Reset begins the next session, or the given one if that is later: what waits is discarded. It returns how many items.
func (in *Intake) Reset(session int64, now time.Time) int64 {
	in.now = now
	if session == 0 {
		session = in.session + 1
	}
	if session <= in.session {
		return 0
	}
	in.session = session
	n := int64(len(in.waiting))
	in.removed += n
	if n > 0 {
		in.discarded = append(in.discarded, Range{First: in.waiting[0].ordinal, Count: n, Session: in.waiting[0].session})
	}
	for _, it := range in.waiting {
		in.finish(it, wire.ItemResult{Discarded: true})
	}
	in.waiting = nil
	return n
}

// Discarded returns the ranges that resets have removed, in order.
func (in *Intake) Discarded() []Range { return in.discarded }

// TakeDiscarded is [Intake.Discarded], without those that it has returned before.
func (in *Intake) TakeDiscarded() []Range {
	d := in.discarded
	in.discarded = nil
	return d
}

// CheckReset is [Intake.Check] of a reset.
func (in *Intake) CheckReset(r wire.Reset) *Refused {
	if refused := in.shut(); refused != nil {
		return refused
	}
	if r.Session != 0 && r.Session != in.session {
		return in.refused(wire.RefusedSession, "session %d has ended already: the present one is %d", r.Session, in.session)
	}
	return nil
}
