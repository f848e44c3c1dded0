package watchdog

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stint-run/stint/timers"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// scopes are those that a client holds, in no order.
func scopes(c *Client) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, t := range c.running {
		all = append(all, t.scope)
	}
	return all
}

func inContext(t *testing.T, w *watch) (context.Context, *Client) {
	c := w.Client("w", &reaper{})
	return timers.NewContext(t.Context(), c), c
}

// above is the place some lines above the caller, as a scope.
func above(lines int) string {
	_, file, line, _ := runtime.Caller(1)
	return fmt.Sprintf("%s#%d", filepath.Base(file), line-lines)
}

// of is the place of a function of one line, as a scope.
func of(f any) string {
	pc := reflect.ValueOf(f).Pointer()
	file, line := runtime.FuncForPC(pc).FileLine(pc)
	return fmt.Sprintf("%s#%d", filepath.Base(file), line)
}

func inlined(ctx context.Context) (func(), error) { return timers.Expires(ctx, time.Second) }

//go:noinline
func notInlined(ctx context.Context) (func(), error) { return timers.Expires(ctx, time.Second) }

func inlinedTwice(ctx context.Context) (func(), error) { return inlined(ctx) }

func inlinedDo(ctx context.Context, f func(context.Context) error) error { return timers.Do(ctx, 1, f) }

// T3: the default scope is really the caller's file and line: of Expires and Do, in functions that
// are inlined or not, through function values and in goroutines.
func TestExpires_DefaultScopeIsTheCallers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ctx, c := inContext(t, start(t, Options{}))
		var held []string
		look := func(context.Context) error { held = scopes(c); return nil }
		for range 3 { // they are known from the second time on
			release, err := timers.Expires(ctx, time.Second)
			require.Equal(t, []string{above(1)}, scopes(c))
			require.NoError(t, err)
			release()

			for want, enter := range map[string]func(context.Context) (func(), error){
				of(inlined): inlined, of(notInlined): notInlined,
			} {
				release, _ = enter(ctx)
				require.Equal(t, []string{want}, scopes(c))
				release()
			}
			release, _ = inlined(ctx)
			require.Equal(t, []string{of(inlined)}, scopes(c))
			release()
			release, _ = inlinedTwice(ctx)
			require.Equal(t, []string{of(inlined)}, scopes(c))
			release()

			require.NoError(t, timers.Do(ctx, time.Second, look))
			require.Equal(t, []string{above(1)}, held)
			require.NoError(t, inlinedDo(ctx, look))
			require.Equal(t, []string{of(inlinedDo)}, held)
			through := timers.Do
			require.NoError(t, through(ctx, time.Second, look))
			require.Equal(t, []string{above(1)}, held)

			ended := make(chan string)
			go func() {
				_ = timers.Do(ctx, time.Second, look)
				ended <- above(1)
			}()
			want := <-ended
			require.Equal(t, []string{want}, held)
		}
	})
}

// T3: every call has its own timer. If equal places shared one, the first to leave would end
// the timer of those still inside.
func TestExpires_DefaultScopesDoNotEndEachOther(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, Options{})
		ctx, c := inContext(t, w)
		var nested func(depth int)
		nested = func(depth int) {
			assert.NoError(t, timers.Do(ctx, time.Second, func(context.Context) error {
				assert.Equal(t, depth, c.Held())
				if depth < 10 {
					nested(depth + 1)
				}
				assert.Equal(t, depth, c.Held())
				return nil
			}))
		}
		nested(1)
		require.Zero(t, c.Held())

		var work sync.WaitGroup
		for i := range 10 {
			work.Go(func() {
				_ = timers.Do(ctx, 5*time.Second, func(context.Context) error {
					time.Sleep(time.Duration(i)*time.Second + interval/2)
					return nil
				})
			})
		}
		time.Sleep(5500 * time.Millisecond)
		require.Len(t, w.reported(EventExpired), 5, "those that take 5 s and more")
		work.Wait()
	})
}

// T2 and Named: a named scope is one key, from wherever it is entered; who has been replaced
// releases nothing.
func TestExpires_Named(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ctx, c := inContext(t, start(t, Options{}))
		first, err := timers.Expires(ctx, time.Second, timers.Named("load"))
		require.NoError(t, err)
		second, err := timers.Expires(ctx, time.Hour, timers.Named("load"))
		require.NoError(t, err)
		require.Equal(t, []string{"load"}, scopes(c))
		first()
		first()
		require.Equal(t, []string{"load"}, scopes(c), "held by the second")
		second()
		require.Zero(t, c.Held())
		require.NoError(t, c.Acquire("load", time.Second, timers.Named("takes no notice")))
		require.Equal(t, []string{"load"}, scopes(c))
		second()
		require.Equal(t, 1, c.Held())
		c.Release("load")
		var wrong *timers.ScopeError
		_, err = timers.Expires(ctx, time.Second, timers.Named(""))
		require.ErrorAs(t, err, &wrong)
	})
}

// T4: the scope is released on every way out of the block, whose error goes on to the caller.
func TestDo_ReleasesOnEveryWayOut(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ctx, c := inContext(t, start(t, Options{}))
		mine := errors.New("mine")
		require.NoError(t, timers.Do(ctx, time.Second, func(inner context.Context) error {
			require.Equal(t, ctx, inner)
			require.Equal(t, 1, c.Held())
			return nil
		}))
		require.Zero(t, c.Held())
		require.Equal(t, mine, timers.Do(ctx, time.Second, func(context.Context) error { return mine }))
		require.Zero(t, c.Held())
		require.PanicsWithValue(t, "out", func() {
			_ = timers.Do(ctx, time.Second, func(context.Context) error { panic("out") })
		})
		require.Zero(t, c.Held())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = timers.Do(ctx, time.Second, func(context.Context) error { runtime.Goexit(); return nil })
		}()
		<-ended
		require.Zero(t, c.Held())
	})
}

// T4: if the timer cannot be acquired the block does not run; without a client the error is typed.
func TestDo_DoesNotRunUnguarded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, Options{})
		ctx, c := inContext(t, w)
		run := func(context.Context) error { t.Error("it must not run"); return nil }
		for _, without := range []context.Context{t.Context(), timers.NewContext(t.Context(), nil)} {
			require.ErrorIs(t, timers.Do(without, time.Second, run), timers.ErrNoGuard)
			release, err := timers.Expires(without, time.Second)
			require.ErrorIs(t, err, timers.ErrNoGuard)
			release()
		}
		w.Stop()
		var away *timers.AwayError
		require.ErrorAs(t, timers.Do(ctx, time.Second, run), &away)
		require.Contains(t, away.Scope, "context_test.go#")
		w.Start()
		c.Close()
		var closed *timers.ClosedError
		require.ErrorAs(t, timers.Do(ctx, time.Second, run), &closed)
	})
}

// The limit on names is for those that a worker chooses; a source file may be called anything.
func TestExpires_DefaultScopeOfAnyLength(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ctx, c := inContext(t, start(t, Options{MaxScope: 3, MaxTimers: 1}))
		release, err := timers.Expires(ctx, time.Second)
		require.NoError(t, err)
		defer release()
		require.Equal(t, 1, c.Held())
		var wrong *timers.ScopeError
		_, err = timers.Expires(ctx, time.Second)
		require.ErrorAs(t, err, &wrong)
		require.Contains(t, wrong.Error(), "1 timers are held")
	})
}
