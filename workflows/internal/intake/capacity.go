package intake

import (
	"cmp"
	"fmt"
	"time"

	"github.com/stint-run/stint/internal/wire"
)

// Refused is why an exchange or a reset is refused.
type Refused struct {
	Type    string // one of wire.Refused…
	Message string
	Detail  wire.Refusal
}

func (r *Refused) Error() string { return r.Message }

// Check returns why an exchange cannot be accepted; nil: it can. What it answers is true until something else is
// accepted.
func (in *Intake) Check(x wire.Exchange) *Refused {
	if r := in.invalid(x); r != nil {
		return r
	}
	if len(x.Items) == 0 {
		return nil // it takes results only, whatever the state
	}
	if r := in.shut(); r != nil {
		return r
	}
	if x.Session != 0 && x.Session != in.session {
		return in.refused(wire.RefusedSession, "session %d is not open: the present one is %d", x.Session, in.session)
	}
	size := int64(0)
	for _, data := range x.Items {
		size += int64(len(data))
	}
	if len(x.Items) > in.limits.Capacity || size > in.limits.Bytes {
		return in.refused(wire.RefusedTooLarge, "%d items of %d bytes are more than the feed's whole capacity of %d items and %d bytes: send fewer at a time",
			len(x.Items), size, in.limits.Capacity, in.limits.Bytes)
	}
	items, bytes := in.Backlog()
	if items+len(x.Items) > in.limits.Capacity || bytes+size > in.limits.Bytes {
		return in.refused(wire.RefusedFull, "the feed is full: %d of %d items and %d of %d bytes are unfinished", items, in.limits.Capacity, bytes, in.limits.Bytes)
	}
	return nil
}

// TooLarge refuses items because the feed takes at most so many bytes at once.
func (in *Intake) TooLarge(x wire.Exchange, most int) *Refused {
	r := in.refused(wire.RefusedTooLarge, "%d items are more than the %d bytes that a feed with so many stages takes at once: send fewer, or smaller ones", len(x.Items), most)
	r.Detail.CapacityBytes = min(r.Detail.CapacityBytes, int64(most))
	return r
}

// shut returns why the leg takes no items; nil: it does.
func (in *Intake) shut() *Refused {
	if in.barred && in.state < closed {
		return in.stopping()
	}
	switch in.state {
	case early:
		return in.refused(wire.RefusedEarly, "the leg is not open yet: ask again")
	case sealed:
		return in.refused(wire.RefusedMoved, "the leg takes no more items: leg %d does", in.successor)
	case closed:
		return in.refused(wire.RefusedClosed, "the feed is closed")
	case ended:
		return in.stopping()
	}
	return nil
}

func (in *Intake) stopping() *Refused {
	return in.refused(wire.RefusedStopping, "the feed is stopping")
}

// Barred refuses items although the leg has not been told yet that the feed is stopping.
func (in *Intake) Barred() *Refused {
	if in.state < closed {
		return in.stopping()
	}
	return in.shut()
}

func (in *Intake) invalid(x wire.Exchange) *Refused {
	switch {
	case x.Client == "":
		return in.refused(wire.RefusedInvalid, "the exchange names no client")
	case len(x.Items) > wire.MaxExchangeItems:
		return in.refused(wire.RefusedInvalid, "%d items in one exchange: send at most %d", len(x.Items), wire.MaxExchangeItems)
	case x.Wait < 0:
		return in.refused(wire.RefusedInvalid, "negative wait %v", x.Wait)
	}
	for i, data := range x.Items {
		if len(data) == 0 {
			return in.refused(wire.RefusedInvalid, "item %d of %d is empty: send a JSON value", i+1, len(x.Items))
		}
	}
	return nil
}

func (in *Intake) refused(kind, format string, args ...any) *Refused {
	r := &Refused{Type: kind, Message: fmt.Sprintf(format, args...), Detail: wire.Refusal{
		Leg: in.successor, Session: in.session, Capacity: in.limits.Capacity, CapacityBytes: in.limits.Bytes,
	}}
	r.Detail.Backlog, r.Detail.BacklogBytes = in.Backlog()
	return r
}

// Session returns the open one.
func (in *Intake) Session() int64 { return in.session }

// Reset begins the next session, or the given one if that is later: what waits is discarded. It returns how many items.
func (in *Intake) Reset(session int64, now time.Time) int64 {
	in.now = now
	session = cmp.Or(session, in.session+1)
	if session <= in.session {
		return 0
	}
	in.session = session
	n := int64(len(in.waiting))
	in.removed += n
	if n > 0 {
		in.discarded = append(in.discarded, wire.FeedRange{First: in.waiting[0].ordinal, Count: n, Session: in.waiting[0].session})
	}
	for _, it := range in.waiting {
		in.finish(it, wire.ItemResult{Discarded: true})
	}
	in.waiting = nil
	return n
}

// Discarded returns the ranges that resets have removed, in order.
func (in *Intake) Discarded() []wire.FeedRange { return in.discarded }

// TakeDiscarded is [Intake.Discarded], without those that it has returned before.
func (in *Intake) TakeDiscarded() []wire.FeedRange {
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
