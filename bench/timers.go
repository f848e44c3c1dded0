package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/stint-run/stint/internal/run/watchdog"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/timers"
	"github.com/stint-run/stint/worker"
)

// scoped has a handler acquire and release timers. pairs is for each item.
func scoped(args []string, pairs int, processes bool) error {
	options := worker.Options{Slots: 1, Processes: processes}
	handler := worker.Each(func(ctx context.Context, _ record) (int64, error) {
		began := time.Now()
		for range pairs {
			release, err := timers.Expires(ctx, time.Minute)
			if err != nil {
				return 0, err
			}
			release()
		}
		return int64(time.Since(began)) / int64(pairs), nil
	})
	worker.ChildMain(handler) // a slot's process goes no further
	if err := embedded(args, handler, options, job.Spec{}, false); err != nil {
		return err
	}
	all, err := answers(args[1])
	if err != nil {
		return err
	}
	return report(args[1], middle(all), fmt.Sprintf("%d pairs", len(all)*pairs))
}

// roundTime finds out how long a round takes over 100,000 timers: the time of a round is when it
// began, and it gets the event when the round is over.
func roundTime(output string) error {
	const held, rounds = 100_000, 30
	var took [2]time.Duration
	for i, clients := range []int{10, held} {
		w := watchdog.New(watchdog.Options{MaxTimers: held, Interval: 10 * time.Millisecond})
		w.Start()
		for range clients {
			c := w.Client("bench", nil)
			for j := range held / clients {
				if err := c.Acquire(fmt.Sprint(j), time.Hour+time.Duration(j*7919%60)*time.Second); err != nil {
					return err
				}
			}
		}
		var all []int64
		for last := w.LastRound(); len(all) < rounds; {
			if at := w.LastRound(); !at.Equal(last) {
				all = append(all, int64(time.Since(at)))
				last = at
			}
			runtime.Gosched()
		}
		w.Stop()
		took[i] = middle(all)
	}
	return report(output, took[1], fmt.Sprintf("each in a client of its own; of 10 clients it takes %v", brief(took[0])))
}
