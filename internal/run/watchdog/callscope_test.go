package watchdog

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/timers"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is a fake one.
type clock struct{ now time.Time }

func setup() (*Scope, *clock) {
	return &Scope{}, &clock{now: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)}
}

func (c *clock) forward(d time.Duration) time.Time {
	c.now = c.now.Add(d)
	return c.now
}

func TestScope_ReleasedAtFirst(t *testing.T) {
	t.Parallel()
	s, c := setup()
	for range 3 {
		_, age := s.Watch(c.forward(time.Hour))
		require.Zero(t, age)
	}
}

func TestScope_AgeCountsFromFirstSight(t *testing.T) {
	t.Parallel()
	s, c := setup()
	s.Watch(c.now)
	s.Acquire()
	held, age := s.Watch(c.forward(90 * time.Millisecond))
	require.Zero(t, age, "when it was acquired is not known: it counts from now")
	for i := 1; i <= 3; i++ {
		again, age := s.Watch(c.forward(time.Second))
		require.Equal(t, held, again)
		require.Equal(t, time.Duration(i)*time.Second, age)
	}
	require.True(t, s.Holds(held))
}

// T1: releasing what is not held is a no-op.
func TestScope_ReleaseTwice(t *testing.T) {
	t.Parallel()
	s, c := setup()
	s.Release()
	released, _ := s.Watch(c.now)
	s.Acquire()
	held, _ := s.Watch(c.forward(time.Second))
	require.NotEqual(t, released, held)
	s.Release()
	s.Release()
	require.False(t, s.Holds(held))
	for range 2 {
		_, age := s.Watch(c.forward(time.Hour))
		require.Zero(t, age, "a released scope has no age")
	}
	s.Acquire()
	s.Watch(c.now)
	_, age := s.Watch(c.forward(time.Second))
	require.Equal(t, time.Second, age, "it can be acquired again")
}

// Of two that end the same holding one succeeds, and none ends another.
func TestScope_End(t *testing.T) {
	t.Parallel()
	var s Scope
	require.False(t, s.End(s.Held()), "it is released")
	first := s.Acquire()
	require.Equal(t, first, s.Held())
	second := s.Acquire()
	require.False(t, s.End(first))
	require.True(t, s.Holds(second))
	require.True(t, s.End(second))
	require.False(t, s.End(second))
	require.Zero(t, s.Held()%2)
	require.NotEqual(t, second, s.Acquire())
}

// T2: acquiring again replaces the deadline.
func TestScope_AcquireAgainStartsAnew(t *testing.T) {
	t.Parallel()
	s, c := setup()
	s.Acquire()
	first, _ := s.Watch(c.now)
	s.Watch(c.forward(time.Minute))
	s.Acquire()
	second, age := s.Watch(c.forward(time.Minute))
	require.Zero(t, age)
	require.NotEqual(t, first, second)
	require.False(t, s.Holds(first))
	require.True(t, s.Holds(second))
}

// What the watcher did not see between two looks must not count as one long holding.
func TestScope_ShortHoldingsUnseen(t *testing.T) {
	t.Parallel()
	s, c := setup()
	seen := map[uint64]bool{}
	for range 1000 {
		for range 3 {
			s.Acquire()
			s.Release()
		}
		s.Acquire()
		held, age := s.Watch(c.forward(time.Second))
		require.Zero(t, age)
		require.False(t, seen[held], "every holding has its own number")
		seen[held] = true
		s.Release()
	}
}

// T2: scopes are independent.
func TestScope_Independent(t *testing.T) {
	t.Parallel()
	a, c := setup()
	b, _ := setup()
	a.Acquire()
	b.Acquire()
	a.Watch(c.now)
	b.Watch(c.now)
	b.Release()
	c.forward(time.Second)
	_, age := a.Watch(c.now)
	require.Equal(t, time.Second, age)
	_, age = b.Watch(c.now)
	require.Zero(t, age)
}

// T8: an expiry is noticed between the limit and the limit plus one interval of watching.
func TestScope_ExpiryWithinOneInterval(t *testing.T) {
	t.Parallel()
	const limit, interval = time.Second, 100 * time.Millisecond
	for _, acquiredAt := range []time.Duration{0, time.Millisecond, 50 * time.Millisecond, 99 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			var s Scope
			time.AfterFunc(acquiredAt, func() { s.Acquire() })
			ticks := time.NewTicker(interval)
			defer ticks.Stop()
			began := time.Now()
			for now := range ticks.C {
				synctest.Wait()
				if _, age := s.Watch(now); age >= limit {
					late := now.Sub(began) - acquiredAt - limit
					require.GreaterOrEqual(t, late, time.Duration(0))
					require.LessOrEqual(t, late, interval)
					return
				}
			}
		})
	}
}

// One goroutine acquires and releases, another watches: the race detector looks on.
func TestScope_WatchedConcurrently(t *testing.T) {
	t.Parallel()
	s, c := setup()
	var work sync.WaitGroup
	done := make(chan struct{})
	work.Go(func() {
		defer close(done)
		for range 100_000 {
			s.Acquire()
			s.Release()
		}
	})
	last := uint64(0)
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		held, _ := s.Watch(c.forward(time.Millisecond))
		require.GreaterOrEqual(t, held, last)
		last = held
	}
	work.Wait()
	_, age := s.Watch(c.forward(time.Hour))
	require.Zero(t, age)
}

func TestExpiredError(t *testing.T) {
	t.Parallel()
	err := error(&timers.ExpiredError{Scope: "the call", After: 10 * time.Second, Over: time.Second})
	require.EqualError(t, err, "the call took longer than 10s")
	var expired *timers.ExpiredError
	require.True(t, errors.As(err, &expired))
}

func BenchmarkScope(b *testing.B) {
	var s Scope
	for b.Loop() {
		s.Acquire()
		s.Release()
	}
}
