package worker

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/timers"
	"github.com/stretchr/testify/require"
)

// abandonments is a handler whose items may hang and ignore their context.
func abandonments(release <-chan struct{}, later *atomic.Int64) Handler {
	return Each(func(_ context.Context, do string) (string, error) {
		if do == "hang" {
			<-release
			later.Add(1)
		}
		return do, nil
	})
}

// T18: a call that ignores its cancelled context is left behind; its item has expired, the
// batch continues, and what the call does later does not count.
func TestEach_Abandoned(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.limits.Timeout = time.Second
		release := make(chan struct{})
		var later atomic.Int64
		o := f.run(abandonments(release, &later), "in.txt", lines("a", "hang", "b", "hang", "c"))
		require.Equal(t, lines(`"a"`, `"b"`, `"c"`), o.output)
		require.Equal(t, []int64{1, 3}, o.items())
		for _, failure := range o.failures {
			require.Equal(t, job.KindExpired, failure.Kind)
			require.Equal(t, "Abandoned", failure.Error.Type)
			require.Contains(t, failure.Error.Message, "the call took longer than 1s")
			require.Contains(t, failure.Error.Stack, "abandon_test.go", "where it hangs (T15)")
			require.Equal(t, 1, failure.Attempts)
		}
		require.EqualValues(t, 2, o.totals.Expiries)
		close(release)
		synctest.Wait()
		require.EqualValues(t, 2, later.Load())
	})
}

// T18: a Batch handler's call is halved until the fault is on the item.
func TestBatch_Abandoned(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.options.Restarts, f.limits.Timeout, f.limits.Attempts = 100, time.Second, 1
		release := make(chan struct{})
		h := Batch(func(_ context.Context, all []string) ([]string, error) {
			if slices.Contains(all, "hang") {
				<-release
			}
			return all, nil
		})
		o := f.run(h, "in.txt", lines("a", "b", "hang", "c", "d"))
		require.Equal(t, lines(`"a"`, `"b"`, `"c"`, `"d"`), o.output)
		require.Equal(t, "Abandoned", o.only(t).Error.Type)
		close(release)
	})
}

// undecodable is an item that hangs while it is decoded.
type undecodable string

// undecoded, of the only test with such items, is closed when they are to go on.
var undecoded chan struct{}

func (u *undecodable) UnmarshalJSON(data []byte) error {
	*u = undecodable(strings.Trim(string(data), `"`))
	if *u == "hang" {
		<-undecoded
	}
	return nil
}

// T18: decoding may be the user's code, and a call that hangs in it is left behind, too. A function of many items does
// not get them later.
func TestGo_AbandonedWhileDecoding(t *testing.T) { //nolint:paralleltest // its two parts have one channel
	for _, kind := range []string{"each", "batch"} {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				undecoded = make(chan struct{})
				f.options.Restarts, f.limits.Timeout, f.limits.Attempts = 100, time.Second, 1
				var got []undecodable
				h := Each(func(_ context.Context, one undecodable) (undecodable, error) { return one, nil })
				if kind == "batch" {
					h = Batch(func(_ context.Context, all []undecodable) ([]undecodable, error) {
						got = append(got, all...)
						return all, nil
					})
				}
				o := f.run(h, "in.txt", lines("a", "hang", "b"))
				require.Equal(t, lines(`"a"`, `"b"`), o.output)
				failure := o.only(t)
				require.EqualValues(t, 1, failure.Item)
				require.Equal(t, job.KindExpired, failure.Kind)
				require.Equal(t, "Abandoned", failure.Error.Type)
				require.Contains(t, failure.Error.Message, "the call took longer than 1s")
				require.Contains(t, failure.Error.Stack, "UnmarshalJSON", "where it hangs")
				close(undecoded)
				synctest.Wait()
				require.NotContains(t, got, undecodable("hang"))
			})
		})
	}
}

// K4, T18: if only hanging calls are left, the slot is out, and the batch is run elsewhere.
func TestEach_AbandonedTooOften(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.options.Restarts, f.limits.Timeout = 2, time.Second
		release := make(chan struct{})
		var later atomic.Int64
		f.serve(abandonments(release, &later))
		done, err := f.process(lines("hang", "hang", "hang", "a"))
		require.NoError(t, err)
		require.NotNil(t, done.Rest)
		require.EqualValues(t, 2, done.Entry.Count)
		<-f.set.gone
		require.ErrorContains(t, f.set.why, "its calls did not return")
		close(release)
	})
}

// T18, K10: a call that ignores a stop, and the end of its grace, is left behind, too. Its
// item has not failed, its slot serves the next job, and the budget is not touched.
func TestEach_HangsAcrossAStop(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.options.NoRestarts, f.limits.Timeout, f.grace = true, time.Hour, time.Second
		release := make(chan struct{})
		defer close(release)
		begun := make(chan struct{}, 10)
		f.serve(Each(func(_ context.Context, do string) (string, error) {
			begun <- struct{}{}
			if do == "hang" {
				<-release
			}
			return do, nil
		}))
		for range 3 {
			began := time.Now()
			done := f.stopped(lines("hang", "a"), begun)
			require.Less(t, time.Since(began), 10*time.Second)
			require.Zero(t, done.Entry.Count)
			require.NotNil(t, done.Rest)
			next, err := f.process(lines("a"))
			require.NoError(t, err)
			require.EqualValues(t, 1, next.Entry.OK)
			<-begun
		}
		require.Empty(t, f.happened(slotOut))
		require.Len(t, f.happened(callLeft), 3)
	})
}

// S7, S20: a call that ignores a stop and its grace is named with the batch's answer, once; and so is one of the job's
// that was left behind before, for another reason. One that has returned meanwhile is not.
func TestD6_CallsLeftBehindAreNamed(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.limits.Timeout, f.grace = time.Minute, time.Second
		releases := map[string]chan struct{}{"before": make(chan struct{}), "brief": make(chan struct{}), "hang": make(chan struct{})}
		begun := make(chan struct{}, 10)
		f.serve(Each(func(_ context.Context, do string) (string, error) {
			begun <- struct{}{}
			<-releases[do]
			return do, nil
		}))
		done, err := f.process(lines("before", "brief"))
		require.NoError(t, err)
		require.EqualValues(t, 2, done.Entry.Failed, "they took too long")
		require.Empty(t, done.Left, "nothing stops")
		<-begun
		<-begun
		close(releases["brief"])
		synctest.Wait()
		done = f.stopped(lines("hang"), begun)
		require.Len(t, done.Left, 2)
		require.Equal(t, []string{"items 0–1", "item 0"}, []string{done.Left[0].Batch, done.Left[1].Batch})
		require.Equal(t, "worker-1", done.Left[1].Worker)
		require.Equal(t, ownPID, done.Left[1].PID)
		require.Contains(t, done.Left[1].Why, "ignores its cancelled context")
		done = f.stopped(lines("hang"), begun)
		require.Len(t, done.Left, 1, "the others were named")
		close(releases["hang"])
		close(releases["before"])
	})
}

// K4: the budget counts replacements in a row: calls that hang now and then never use it up.
func TestEach_AbandonedNowAndThen(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.options.Restarts, f.limits.Timeout = 1, time.Second
		release := make(chan struct{})
		defer close(release)
		var later atomic.Int64
		o := f.run(abandonments(release, &later), "in.txt", strings.Repeat("hang\na\n", 5))
		require.Equal(t, strings.Repeat("\"a\"\n", 5), o.output)
		require.Len(t, o.failures, 5)
		require.Empty(t, f.happened(slotOut))
	})
}

// A handler that ends its goroutine fails its call, and nothing hangs.
func TestEach_Goexit(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Slots, f.limits.Attempts, f.batch = 1, 1, 1000
	o := f.run(Each(func(_ context.Context, do string) (string, error) {
		if do == "exit" {
			runtime.Goexit()
		}
		return do, nil
	}), "in.txt", lines("a", "exit", "b"))
	require.Equal(t, lines(`"a"`, `"b"`), o.output)
	require.Contains(t, o.only(t).Error.Message, "Goexit")
}

// T3, T4, T6, T8: a scope within a Go handler ends the item that holds it too long.
func TestEach_Scopes(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		o := f.run(Each(func(ctx context.Context, do string) (string, error) {
			return do, timers.Do(ctx, time.Second, func(ctx context.Context) error {
				if do == "hang" {
					<-ctx.Done()
				}
				return ctx.Err()
			})
		}), "in.txt", lines("a", "hang", "b"))
		require.Equal(t, lines(`"a"`, `"b"`), o.output)
		failure := o.only(t)
		require.Equal(t, job.KindExpired, failure.Kind)
		require.Contains(t, failure.Error.Message, "abandon_test.go#")
	})
}

// A timer that a handler forgets to release ends with its call.
func TestEach_ForgottenScope(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		h := Batch(func(ctx context.Context, all []string) ([]string, error) {
			if all[0] == "forget" {
				_, err := timers.Expires(ctx, time.Second)
				return all, err
			}
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Second):
			}
			return all, ctx.Err()
		})
		f.options.CallItems = 1
		o := f.run(h, "in.txt", lines("forget", "b"))
		require.Empty(t, o.failures)
	})
}

// bubble runs a test with its own clock, one slot and one batch.
func bubble(t *testing.T, test func(t *testing.T, f *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.options.Slots, f.batch = 1, 1000
		test(t, f)
	})
}

// B2, B3: the items of a file are all there: calls take what there is, and none waits for more.
func TestBatch_CallsNeverWait(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.options.CallItems = 10
		began := time.Now()
		var sizes []int
		f.run(Batch(func(_ context.Context, all []string) ([]string, error) {
			sizes = append(sizes, len(all))
			require.Equal(t, began, time.Now())
			return all, nil
		}), "in.txt", strings.Repeat("x\n", 25))
		require.Equal(t, []int{10, 10, 5}, sizes)
	})
}
