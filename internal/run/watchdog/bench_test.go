package watchdog

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stint-run/stint/timers"
)

// benchWatchdog returns a watchdog that runs for as long as the benchmark.
func benchWatchdog(b *testing.B) *Watchdog {
	b.Helper()
	w := New(Options{MaxTimers: 100_000})
	w.Start()
	b.Cleanup(w.Stop)
	return w
}

func BenchmarkClient_AcquireRelease(b *testing.B) {
	for _, held := range []int{0, 10, 1000} {
		b.Run(fmt.Sprintf("held=%d", held), func(b *testing.B) {
			c := benchWatchdog(b).Client("w", nil)
			hold(b, c, held)
			b.ReportAllocs()
			for b.Loop() {
				if err := c.Acquire("scope", time.Minute); err != nil {
					b.Fatal(err)
				}
				c.Release("scope")
			}
		})
	}
}

// hold acquires n timers with deadlines on both sides of a minute.
func hold(b *testing.B, c *Client, n int) {
	b.Helper()
	for i := range n {
		if err := c.Acquire(fmt.Sprint(i), 30*time.Second+time.Duration(i*7919%60)*time.Second); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkExpires(b *testing.B) {
	ctx := timers.NewContext(b.Context(), benchWatchdog(b).Client("w", nil))
	b.ReportAllocs()
	for b.Loop() {
		release, err := timers.Expires(ctx, time.Minute)
		if err != nil {
			b.Fatal(err)
		}
		release()
	}
}

func BenchmarkDo(b *testing.B) {
	ctx := timers.NewContext(b.Context(), benchWatchdog(b).Client("w", nil))
	b.ReportAllocs()
	for b.Loop() {
		if err := timers.Do(ctx, time.Minute, func(context.Context) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

// A round over 100,000 timers, held by few clients or by many.
func BenchmarkRound_100k(b *testing.B) {
	for _, clients := range []int{1, 10, 100_000} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			w := New(Options{MaxTimers: 100_000})
			w.round.Store(int64(w.now())) // as if started: the benchmark has the only rounds
			w.on.Store(true)
			for range clients {
				hold(b, w.Client("w", nil), 100_000/clients)
			}
			r := &run{ctx: b.Context()}
			b.ReportAllocs()
			for b.Loop() {
				w.look(r)
			}
		})
	}
}
