package watchdog

import (
	"context"
	"errors"
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
func overWire(t *testing.T, o Options, delay time.Duration) (near nearby, far *wire, r *reaper) {
	t.Helper()
	r = &reaper{}
	far = &wire{to: start(t, o).Client("w", r), delay: delay}
	return nearby{NewRemote("w", far).(*remote)}, far, r
}

// nearby is what another process has of its timers.
type nearby struct{ *remote }

// Acquire holds a timer of that name.
func (n nearby) Acquire(scope string, after time.Duration, o ...timers.Option) (release func(), err error) {
	return timers.Expires(timers.NewContext(context.Background(), n.remote), after, append(o, timers.Named(scope))...)
}

// Held is how many timers it knows of.
func (n nearby) Held() (held int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, number := range n.held {
		if number != 0 {
			held++
		}
	}
	return held
}

// T1, T3, T4, T10: timers over a wire are held like others.
func TestRemote_HoldsTimersElsewhere(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		near, far, r := overWire(t, Options{}, time.Millisecond)
		ctx := timers.NewContext(t.Context(), near)
		_, err := near.Acquire("a", time.Second, timers.WithSignal(syscall.SIGTERM))
		require.NoError(t, err)
		release, err := near.Acquire("b", time.Hour, timers.ReportOnly())
		require.NoError(t, err)
		require.Equal(t, 2, near.Held())
		require.Equal(t, 2, far.to.Held())
		release()
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
		_, err := near.Acquire("s", time.Minute)
		require.ErrorAs(t, err, &away)
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
		release, err := near.Acquire("s", time.Hour)
		require.NoError(t, err)
		var wrong *timers.ScopeError
		refused, err := near.Acquire("t", time.Hour)
		require.ErrorAs(t, err, &wrong)
		_, err = near.Acquire("s", time.Hour, timers.WithSignal(99))
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, 1, near.Held())
		refused()
		release()
		synctest.Wait()
		require.Zero(t, near.Held())
		require.Zero(t, far.to.Held())
		broken := errors.New("broken pipe")
		near = nearby{NewRemote("w", brokenWire{broken}).(*remote)}
		_, err = near.Acquire("s", time.Hour)
		require.ErrorIs(t, err, broken)
		require.Zero(t, near.Held())
	})
}

type brokenWire struct{ err error }

func (w brokenWire) Acquire(context.Context, time.Duration, timers.Timer) error { return w.err }
func (w brokenWire) Release(string) error                                       { return w.err }

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
