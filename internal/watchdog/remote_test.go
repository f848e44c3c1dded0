package watchdog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/timers"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// wire takes a client's requests to another one, each with a delay, in order.
type wire struct {
	to    *Client
	delay time.Duration
	stuck chan struct{} // if it is not nil, releases wait for it before they are sent
	mu    sync.Mutex
	sent  []string
	under []func() // way
}

func (w *wire) send(request string, apply func() error) <-chan error {
	answer := make(chan error, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, request)
	w.under = append(w.under, func() { answer <- apply() })
	time.AfterFunc(w.delay, func() { // of those due at the same time the first in the line comes first
		w.mu.Lock()
		defer w.mu.Unlock()
		next := w.under[0]
		w.under = w.under[1:]
		next()
	})
	return answer
}

func (w *wire) Acquire(ctx context.Context, after time.Duration, t timers.Timer) error {
	var options []timers.Option
	if t.ReportOnly {
		options = append(options, timers.ReportOnly())
	}
	options = append(options, timers.WithSignal(t.Signal))
	select {
	case err := <-w.send("acquire "+t.Scope, func() error { return w.to.Acquire(t.Scope, after, options...) }):
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *wire) Release(scope string) error {
	if w.stuck != nil {
		<-w.stuck
	}
	w.send("release "+scope, func() error { w.to.Release(scope); return nil })
	return nil
}

// overWire returns a client and the one in another process that holds its timers.
func overWire(t *testing.T, o Options, delay time.Duration) (near *Client, far *wire, r *reaper) {
	t.Helper()
	r = &reaper{}
	far = &wire{to: start(t, o).Client("w", r), delay: delay}
	return NewRemote("w", far), far, r
}

// T1, T3, T4, T10: timers over a wire are held like others.
func TestRemote_HoldsTimersElsewhere(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		near, far, r := overWire(t, Options{}, time.Millisecond)
		ctx := timers.NewContext(t.Context(), near)
		near.Release("never held")
		require.Empty(t, far.sent)
		require.NoError(t, near.Acquire("a", time.Second, timers.WithSignal(syscall.SIGTERM)))
		require.NoError(t, near.Acquire("b", time.Hour, timers.ReportOnly()))
		require.Equal(t, 2, near.Held())
		require.Equal(t, 2, far.to.Held())
		near.Release("b")
		require.NoError(t, timers.Do(ctx, time.Hour, func(context.Context) error {
			require.Equal(t, 2, far.to.Held())
			require.Contains(t, scopes(far.to)[0]+scopes(far.to)[1], "remote_test.go#")
			return nil
		}))
		time.Sleep(2 * time.Millisecond)
		require.Equal(t, 1, near.Held())
		require.Equal(t, []string{"a"}, scopes(far.to))
		time.Sleep(2 * time.Second)
		require.Len(t, r.reaps(), 1)
		require.Equal(t, syscall.SIGTERM, r.reaps()[0].Signal)
	})
}

// T3: entering the same place again, in a recursion or beside itself, is another timer there, too.
func TestRemote_EqualPlaces(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		near, far, _ := overWire(t, Options{}, 0)
		ctx := timers.NewContext(t.Context(), near)
		var releases []func()
		for range 3 {
			release, err := timers.Expires(ctx, time.Hour)
			require.NoError(t, err)
			releases = append(releases, release)
		}
		for i, release := range releases {
			require.Equal(t, 3-i, near.Held())
			require.Equal(t, 3-i, far.to.Held())
			release()
			release()
			synctest.Wait()
		}
		require.Zero(t, far.to.Held())
	})
}

// T3: a name is free only once its release has been sent, or that would end the next one's timer.
func TestRemote_NameOfOneBeingReleased(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		near, far, _ := overWire(t, Options{}, 0)
		far.stuck = make(chan struct{})
		ctx := timers.NewContext(t.Context(), near)
		first, err := inlined(ctx)
		require.NoError(t, err)
		for range 2 { // of two releases one is sent
			go first()
		}
		synctest.Wait()
		require.Zero(t, near.Held())
		_, err = inlined(ctx)
		require.NoError(t, err)
		close(far.stuck)
		synctest.Wait()
		require.Equal(t, []string{of(inlined) + " (2)"}, scopes(far.to))
		require.Equal(t, 1, near.Held())
		require.Len(t, far.sent, 3)
		_, err = inlined(ctx)
		require.NoError(t, err)
		require.Equal(t, "acquire "+of(inlined), far.sent[3])
	})
}

// T2: who was replaced releases nothing.
func TestRemote_AcquireAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		near, far, _ := overWire(t, Options{}, 0)
		ctx := timers.NewContext(t.Context(), near)
		first, err := timers.Expires(ctx, time.Second, timers.Named("s"))
		require.NoError(t, err)
		second, err := timers.Expires(ctx, time.Hour, timers.Named("s"))
		require.NoError(t, err)
		first()
		synctest.Wait()
		require.Equal(t, 1, far.to.Held())
		second()
		synctest.Wait()
		require.Zero(t, far.to.Held())
	})
}

// T12: a watchdog that does not answer is away after a second; what it grants later is given back.
func TestRemote_Away(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		near, far, r := overWire(t, Options{}, 3*time.Second)
		began := time.Now()
		var away *timers.AwayError
		require.ErrorAs(t, near.Acquire("s", time.Minute), &away)
		require.Equal(t, timers.AwayError{Worker: "w", Scope: "s", Late: remoteLimit}, *away)
		require.Equal(t, remoteLimit, time.Since(began))
		require.Zero(t, near.Held())
		time.Sleep(5 * time.Second)
		require.Equal(t, []string{"acquire s", "release s"}, far.sent)
		require.Zero(t, far.to.Held())
		time.Sleep(time.Hour)
		require.Empty(t, r.reaps())
	})
}

// T12: what is refused there is refused here, and what was held before stays held.
func TestRemote_Refused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		near, far, _ := overWire(t, Options{MaxTimers: 1}, 0)
		require.NoError(t, near.Acquire("s", time.Hour))
		var wrong *timers.ScopeError
		require.ErrorAs(t, near.Acquire("t", time.Hour), &wrong)
		require.ErrorAs(t, near.Acquire("s", time.Hour, timers.WithSignal(99)), &wrong)
		require.Equal(t, 1, near.Held())
		near.Release("t")
		near.Release("s")
		synctest.Wait()
		require.Zero(t, near.Held())
		require.Zero(t, far.to.Held())
		broken := errors.New("broken pipe")
		near = NewRemote("w", brokenWire{broken})
		require.ErrorIs(t, near.Acquire("s", time.Hour), broken)
		require.Zero(t, near.Held())
	})
}

type brokenWire struct{ err error }

func (w brokenWire) Acquire(context.Context, time.Duration, timers.Timer) error { return w.err }
func (w brokenWire) Release(string) error                                       { return w.err }

// Clearing and closing give everything back; a closed client takes nothing.
func TestRemote_ClearAndClose(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		near, far, _ := overWire(t, Options{}, 0)
		for _, end := range []func(){near.Clear, near.Close, near.Close} {
			for i := range 3 {
				_ = near.Acquire(fmt.Sprint(i), time.Hour)
			}
			end()
			synctest.Wait()
			require.Zero(t, near.Held())
			require.Zero(t, far.to.Held())
			require.False(t, near.Condemned())
		}
		var closed *timers.ClosedError
		require.ErrorAs(t, near.Acquire("s", time.Hour), &closed)
	})
}

// T13: many at once, over a wire: no request is lost.
func TestRemote_ManyAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		near, far, r := overWire(t, Options{}, time.Millisecond)
		ctx := timers.NewContext(t.Context(), near)
		var work sync.WaitGroup
		for range 10 {
			work.Go(func() {
				for range 50 {
					assert.NoError(t, timers.Do(ctx, time.Second, func(ctx context.Context) error {
						return timers.Do(ctx, time.Second, func(context.Context) error { return nil })
					}))
				}
			})
		}
		work.Wait()
		time.Sleep(time.Minute)
		require.Zero(t, near.Held())
		require.Zero(t, far.to.Held())
		require.Empty(t, r.reaps())
	})
}
