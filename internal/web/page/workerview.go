package page

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/base/text"
)

// workersView is what the template of the workers gets.
type workersView struct {
	Pools []poolView
	Empty bool
	Busy  string
}

type poolView struct {
	Name    string
	Workers []workerView
	Running string
	Bar     bar
}

type workerView struct {
	Name, Seen, Slots string
	Program           string // version of stint
	Version           string // of the handler
	Bar               bar
	Silent            bool
	Batches           []batchView
}

type batchView struct {
	slotRow
	Job, Address string
}

// newWorkersView makes what the template gets.
func newWorkersView(found poolsAndWorkers, now time.Time) workersView {
	v := workersView{Empty: len(found.pools) == 0, Busy: text.Count(len(found.Running), "batch")}
	for _, pool := range found.pools {
		v.Pools = append(v.Pools, newPoolView(found, pool, now))
	}
	return v
}

func newPoolView(found poolsAndWorkers, pool string, now time.Time) poolView {
	v := poolView{Name: pool}
	running, free, used := 0, 0, 0
	for _, w := range found.Workers.Workers {
		if w.Pool != pool {
			continue
		}
		one := workerView{Name: w.Worker, Seen: ago(w.Seen, now), Silent: found.Unheard(w, now), Program: w.Program, Version: w.Version}
		for _, b := range found.Running {
			if b.Worker == w.Worker && (b.Pool == pool || b.Pool == "") {
				one.Batches = append(one.Batches, batchView{newSlotRow(b, now, false, 0), b.Job, Path + "/jobs/" + pathEscape(b.Job)})
			}
		}
		running += len(one.Batches)
		busy := len(one.Batches)
		one.Slots = fmt.Sprintf("%d busy", busy)
		if w.Slots > 0 {
			busy = min(busy, w.Slots)
			one.Slots = fmt.Sprintf("%d of %d busy, %d free", busy, w.Slots, w.Slots-busy)
			one.Bar = newBar(one.Slots, float64(w.Slots), []part{{class: "flight", size: float64(busy)}})
			used, free = used+busy, free+w.Slots-busy
		}
		v.Workers = append(v.Workers, one)
	}
	slices.SortFunc(v.Workers, func(a, b workerView) int { return cmp.Compare(a.Name, b.Name) })
	v.Running = text.Count(running, "batch") + " in hand"
	if used+free > 0 {
		v.Bar = newBar(fmt.Sprintf("%d of %d slots busy", used, used+free), float64(used+free), []part{{class: "flight", size: float64(used)}})
		v.Running = v.Bar.Label
	}
	return v
}
