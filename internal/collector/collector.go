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
)

// A server in the process keeps some 60 MB alive, and a busy worker as much again.
const (
	serverFloor  = 180 << 20
	serverGrowth = 100 // percent
)

// PaceServer is [Pace] for a program that holds a server and a worker. It does nothing if the user has set GOGC.
func PaceServer() {
	if os.Getenv("GOGC") == "" {
		Pace(serverFloor, serverGrowth)
	}
}

// Pace lets the heap grow to floor bytes before it is collected, and from then on by growth percent
// of the live bytes if that is more. It lasts until the process ends. Call it once.
func Pace(floor uint64, growth int) {
	p := &pacer{floor: floor, growth: growth}
	p.adjust(liveHeap())
}

type pacer struct {
	floor  uint64
	growth int
}

// adjust sets the pace after a collection that left live bytes, until the next one.
func (p *pacer) adjust(live uint64) {
	debug.SetGCPercent(percent(live, p.floor, p.growth))
	type cycle struct{ _ *int } // a pointer keeps it from sharing its memory with others
	runtime.SetFinalizer(&cycle{}, func(*cycle) { p.adjust(liveHeap()) })
}

// percent is the growth that leads from live bytes to the floor, and at least growth.
func percent(live, floor uint64, growth int) int {
	const least = 4 << 20 // the collector starts there when nothing is known to be alive
	live = max(live, least)
	if live >= floor {
		return growth
	}
	return max(growth, int((floor-live)*100/live))
}

func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}
