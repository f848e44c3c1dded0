package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/worker"
)

// lateLimit is how late a tick begins at the median.
const lateLimit = 5 * time.Millisecond

func (b *bench) loopRows() []row {
	const role = "loop"
	return []row{{
		name: "loop, 2 slots of 1,000 ticks/s", limit: "≤ " + brief(lateLimit) + ", no event a tick", before: b.fresh, once: true,
		stint:  func() *exec.Cmd { return b.role(role, b.data("ten", 10, 100), fmt.Sprint(b.items(60_000))) },
		figure: func() (time.Duration, error) { return b.figure(role) },
		note:   func() string { return b.read(role, ".note") },
	}}
}

// loopTicks runs a loop of 1,000 ticks a second in each of two slots. The figure is how late ticks began at the median.
// args are those of feedRole.
func loopTicks(args []string) error {
	ticks, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	enough := make(chan struct{}, 1)
	handle := func(_ context.Context, t wire.Tick) (int64, error) {
		if t.Tick == int64(ticks)/2 {
			select {
			case enough <- struct{}{}:
			default:
			}
		}
		return t.Tick, nil
	}
	const slots = 2
	f, err := startBench(args, worker.Each(handle), worker.Options{Slots: slots}, job.Spec{Loop: &job.Loop{Every: time.Millisecond, Slots: slots}})
	if err != nil {
		return err
	}
	<-enough
	ctx := context.Background()
	if err := f.run.Stop(ctx, job.Stop{}); err != nil {
		return err
	}
	done, err := f.run.Wait(ctx)
	if err != nil {
		return err
	}
	events, err := f.events(ctx, done.Legs)
	if err != nil {
		return err
	}
	if err := f.stop(); err != nil {
		return err
	}
	l := done.Loop
	note := fmt.Sprintf("%d ticks, late %v on average and %v at most, %d missed; %d events in all", l.Ticks, l.LateMean, l.LateMax, l.Missed, events)
	return report(args[1], l.LateMedian, note)
}
