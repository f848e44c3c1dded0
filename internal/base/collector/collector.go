// Package collector paces Go's garbage collector for a process that holds a server.
//
// The collector starts when the heap has grown by a share of what was alive the last time. A process
// that builds up some 100 MB at its start is then collected again and again while it has little, and
// that is most of what a short run spends on collections.
package collector

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// A server in the process keeps some 60 MB alive. More than half as much again saves no time: memory that is new to a
// process costs as much as collections do.
const serverFloor = 90 << 20

// Above the floor the heap grows by leastGrowth to mostGrowth percent of the live bytes: by more if collections come
// sooner than tooSoon after each other, so that they take little of the time, and by less if they come later than
// tooLate, so that a process that makes little garbage does not keep much of it.
const (
	leastGrowth = 25
	firstGrowth = 50
	mostGrowth  = 100
	tooSoon     = 500 * time.Millisecond
	tooLate     = 2 * time.Second
)

// PaceServer is [Pace] for a program that holds a server and a worker. It does nothing if the user has set GOGC.
func PaceServer() {
	if os.Getenv("GOGC") == "" {
		Pace(serverFloor)
	}
}

// Pace lets the heap grow to floor bytes before it is collected. If more is alive it grows by 25 to 100 percent of
// that, so that collections come about once a second. It lasts until the process ends. Call it once.
func Pace(floor uint64) {
	p := &pacer{floor: floor, growth: firstGrowth, last: time.Now()}
	p.adjust()
}

type pacer struct {
	floor  uint64
	growth int
	last   time.Time // when there was a collection
}

// adjust sets the pace until the next collection, after each one.
func (p *pacer) adjust() {
	live, now := liveHeap(), time.Now()
	debug.SetGCPercent(p.percent(live, now))
	type cycle struct{ _ *int } // a pointer keeps it from sharing its memory with others
	runtime.SetFinalizer(&cycle{}, func(*cycle) { p.adjust() })
}

// percent returns how much the heap may grow after a collection that left live bytes.
func (p *pacer) percent(live uint64, now time.Time) int {
	const least = 4 << 20 // the collector starts there when nothing is known to be alive
	live = max(live, least)
	since := now.Sub(p.last)
	p.last = now
	switch {
	case live < p.floor/2: // the floor decides
	case since < tooSoon:
		p.growth = min(2*p.growth, mostGrowth)
	case since > tooLate:
		p.growth = max(p.growth/2, leastGrowth)
	}
	if live >= p.floor {
		return p.growth
	}
	return max(p.growth, int((p.floor-live)*100/live))
}

func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}
