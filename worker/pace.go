package worker

import (
	"sync/atomic"
	"time"
)

// pace cuts calls so that each takes about the target. It is safe for concurrent use.
type pace struct {
	target time.Duration
	first  int // items, before anything is known
	most   int // items

	perItem atomic.Int64 // nanoseconds an item takes, of late; 0: not known
}

// items is how many items the next call should have.
func (p *pace) items() int {
	per := p.perItem.Load()
	if per == 0 {
		return p.first
	}
	return int(min(int64(p.most), max(1, int64(p.target)/per)))
}

// learn takes in that so many items have taken so long.
func (p *pace) learn(items int, took time.Duration) {
	per := max(1, int64(took)/int64(items))
	if old := p.perItem.Load(); old > 0 {
		per = (old + per) / 2
	}
	p.perItem.Store(per)
}

// settled is how many items calls get in the end where starting one takes so many seconds, and each
// of its items so many more.
func (p *pace) settled(start, item float64) int {
	items := float64(p.most)
	if item > 0 {
		items = min(items, (p.target.Seconds()-start)/item)
	}
	return int(max(1, items))
}
