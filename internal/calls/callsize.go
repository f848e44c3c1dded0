package calls

import (
	"sync/atomic"
	"time"
)

// Pace cuts calls so that each takes about the target. It is safe for concurrent use.
type Pace struct {
	Target time.Duration // 0: all calls have the first one's items
	First  int           // items, before anything is known
	Most   int           // items

	perItem atomic.Int64 // nanoseconds an item takes, of late; 0: not known
}

// Items is how many items the next call should have.
func (p *Pace) Items() int {
	per := p.perItem.Load()
	if per == 0 {
		return p.First
	}
	return int(min(int64(p.Most), max(1, int64(p.Target)/per)))
}

// Learn takes in that so many items have taken so long.
func (p *Pace) Learn(items int, took time.Duration) {
	if p.Target == 0 || items == 0 {
		return
	}
	per := max(1, int64(took)/int64(items))
	if old := p.perItem.Load(); old > 0 {
		per = (old + per) / 2
	}
	p.perItem.Store(per)
}

// Settled is how many items calls get in the end if starting one takes so many seconds, and each
// of its items so many more.
func (p *Pace) Settled(start, item float64) int {
	items := float64(p.Most)
	if item > 0 {
		items = min(items, (p.Target.Seconds()-start)/item)
	}
	return int(max(1, items))
}
