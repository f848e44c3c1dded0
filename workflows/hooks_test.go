package workflows

import (
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// stages are the hooks that were run, in order.
func (w *world) stages() []string {
	var names []string
	for _, in := range w.hooks {
		names = append(names, in.Stage+" "+in.Name)
	}
	return names
}

// W9: init hooks, also of several pools, run one after another, all before any batch.
func TestHooks_InitBeforeAnyBatch(t *testing.T) {
	t.Parallel()
	w := setup(t, 300)
	w.spec.Init = []string{"prepare", "models/load"}
	w.hookTook = time.Minute
	keys := map[string]string{}
	w.hook = func(in wire.HookInput) error {
		require.Len(t, w.all, 0, "a batch before %s", in.Name)
		require.Equal(t, w.spec.Pool, in.Pool)
		keys[in.Key] = w.hookQueue
		return nil
	}
	report := w.mustRun()
	require.Equal(t, []string{"init prepare", "init load"}, w.stages())
	require.Len(t, keys, 2, "each has its own key")
	require.Equal(t, wire.IOQueue(w.spec.Pool), keys[w.hooks[0].Key])
	require.Equal(t, wire.IOQueue("models"), keys[w.hooks[1].Key], "the other pool's workers run it")
	require.GreaterOrEqual(t, took(report), 120.0, "one after the other")
	require.Equal(t, []job.HookRun{{Stage: "init", Hook: "prepare"}, {Stage: "init", Hook: "models/load"}}, report.Hooks)
	w.requireSummaries("init hook prepare", "init hook models/load")
}

// W9, W11: init and cleanup hooks wait for a worker for as long as it takes, as the job's other work does. Each try of
// them has a limit, and so has what a stop waits for.
func TestHooks_WaitForAWorker(t *testing.T) {
	t.Parallel()
	const forEver, day = 365 * 24 * time.Hour, 24 * time.Hour
	for _, test := range []struct{ call, each, unblock time.Duration }{
		{10 * time.Minute, 10 * time.Minute, 10 * time.Minute},
		{job.NoLimit, day, time.Hour + dispatch.KillLimit},
		{100 * day, day, time.Hour + dispatch.KillLimit},
	} {
		w := setup(t, 300)
		w.spec.CallTimeout, w.took = test.call, time.Hour
		w.spec.Init, w.spec.Shutdown, w.spec.Cleanup = []string{"prepare", "models/load"}, []string{"release"}, []string{"tidy"}
		w.hook = func(in wire.HookInput) error {
			if in.Stage == wire.HookShutdown {
				require.Equal(t, time.Hour+dispatch.KillLimit, w.hookLimit)
				require.Equal(t, test.unblock, w.hookEach)
				return nil
			}
			require.Equal(t, forEver, w.hookLimit, in.Stage)
			require.Equal(t, test.each, w.hookEach, in.Stage)
			return nil
		}
		w.at(time.Minute, func() { w.stop(job.Stop{Grace: "1h"}) })
		w.stopped()
		require.Equal(t, []string{"init prepare", "init load", "shutdown release", "cleanup tidy"}, w.stages())
	}
}

// W9: init hooks run once, over however many runs the job continues as new.
func TestHooks_InitOverContinueAsNew(t *testing.T) {
	t.Parallel()
	w := setup(t, 5000)
	w.pageLimit, w.spec.Init = 20, []string{"prepare"}
	w.process = func(*execution) { w.env.SetContinueAsNewSuggested(w.runs < 3) }
	report := w.mustRun()
	require.Equal(t, 3, w.runs)
	require.Equal(t, []string{"init prepare"}, w.stages())
	require.Len(t, report.Hooks, 1)
}

// W9: a failed init fails the job, and no batch runs, nor another init.
func TestHooks_InitFails(t *testing.T) {
	t.Parallel()
	w := setup(t, 300)
	w.spec.Init, w.spec.Attempts = []string{"prepare", "more"}, 3
	w.hook = func(wire.HookInput) error { return transient("no such table") }
	_, err := w.run()
	report := w.failedReport(err, job.ErrorHook)
	require.Contains(t, report.Error.Message, "no such table")
	require.Empty(t, w.all)
	require.Equal(t, []string{"init prepare", "init prepare", "init prepare"}, w.stages(), "it is tried as often as attempts say")
	require.Equal(t, w.hooks[0].Key, w.hooks[2].Key, "and can know that it is a repetition")
}

// W9: shutdown hooks run once a stop is requested, before it is waited for; that they fail changes
// nothing but the report.
func TestHooks_ShutdownUnblocks(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{false, true} {
		w := setup(t, 300)
		w.spec.Shutdown, w.spec.Cleanup, w.spec.Window = []string{"release"}, []string{"tidy"}, 3
		var blocked []*execution
		w.process = func(x *execution) {
			blocked = append(blocked, x)
			x.took, x.onCancel = 0, func() {}
		}
		w.hook = func(in wire.HookInput) error {
			if in.Stage != wire.HookShutdown {
				require.Zero(t, w.flying, "cleanup comes when everything has ended")
				return nil
			}
			require.Equal(t, "maintenance", in.Reason)
			require.Equal(t, time.Hour+dispatch.KillLimit, w.hookLimit, "it holds the stop up no longer than what is to end")
			for _, x := range blocked {
				x.endAfter(time.Second, x.done(5), nil)
			}
			if fails {
				return temporal.NewNonRetryableApplicationError("nobody listens", "Deaf", nil)
			}
			return nil
		}
		w.at(time.Minute, func() { w.stop(job.Stop{Reason: "maintenance", Grace: "1h"}) })
		report := w.stopped()
		require.Less(t, took(report), 70.0)
		require.Equal(t, []string{"shutdown release", "cleanup tidy"}, w.stages())
		require.Equal(t, fails, report.Hooks[0].Error != nil)
		require.EqualValues(t, 15, report.OK)
	}
}

// W9: shutdown hooks run once, however often a stop is asked for.
func TestHooks_ShutdownOnce(t *testing.T) {
	t.Parallel()
	w := setup(t, 300)
	w.spec.Shutdown = []string{"release"}
	w.hookTook, w.took, w.settle = time.Second, time.Hour, 10*time.Second
	for at := time.Minute; at < time.Minute+5*time.Second; at += time.Second {
		w.at(at, func() { w.stop(job.Stop{Reason: "maintenance"}) })
	}
	w.stopped()
	require.Equal(t, []string{"shutdown release"}, w.stages())
}

// W10: cleanup hooks run at every end, but not while something still runs.
func TestHooks_Cleanup(t *testing.T) {
	t.Parallel()
	t.Run("completed", func(t *testing.T) {
		t.Parallel()
		w := setup(t, 300)
		w.spec.Cleanup = []string{"tidy", "tell"}
		w.hook = func(in wire.HookInput) error {
			require.Len(t, w.finishes, 1)
			require.Equal(t, job.Completed, in.State)
			return nil
		}
		w.mustRun()
		require.Equal(t, []string{"cleanup tidy", "cleanup tell"}, w.stages())
	})
	t.Run("failed", func(t *testing.T) {
		t.Parallel()
		w := setup(t, 300)
		w.spec.Cleanup = []string{"tidy", "tell"}
		w.hook = func(in wire.HookInput) error { return permanentError("Broken") }
		w.process = func(x *execution) { x.fails(permanentError(job.ErrorInput)) }
		_, err := w.run()
		report := w.failedReport(err, job.ErrorInput)
		require.Len(t, report.Hooks, 2, "one that fails keeps no other from running")
	})
	t.Run("stragglers", func(t *testing.T) {
		t.Parallel()
		w := setup(t, 300)
		w.spec.Cleanup = []string{"tidy"}
		w.process = func(x *execution) { x.took, x.onCancel = 0, func() {} }
		w.at(time.Minute, func() { w.stop(job.Stop{Grace: "1s", IgnoreStragglers: true}) })
		report := w.stopped()
		require.Empty(t, w.hooks)
		require.Equal(t, []job.HookRun{{Stage: "cleanup", Hook: "tidy", Skipped: "work was still running"}}, report.Hooks)
	})
}

// A stop ends a job whose init hook does not end.
func TestHooks_StopDuringInit(t *testing.T) {
	t.Parallel()
	w := setup(t, 300)
	w.spec.Init = []string{"prepare"}
	w.hookTook = 24 * time.Hour
	w.at(time.Minute, func() { w.stop(job.Stop{}) })
	require.Less(t, took(w.stopped()), 70.0)
	require.Empty(t, w.all)
}

// W10: a cleanup hook does not run beside an init hook that a stop has cut off; one that does not heed
// the stop is not waited for.
func TestHooks_StopWaitsForInit(t *testing.T) {
	t.Parallel()
	for _, heeds := range []bool{true, false} {
		w := setup(t, 300)
		w.spec.Init, w.spec.Cleanup = []string{"prepare"}, []string{"tidy"}
		cancelled, over := w.holdHook()
		w.at(time.Minute, func() { w.stop(job.Stop{Grace: "1h"}) })
		if heeds {
			w.at(10*time.Minute, func() {
				require.True(t, *cancelled)
				require.Equal(t, job.Stopping, w.query().State)
				*over = true
			})
		}
		report := w.stopped()
		if heeds {
			require.InDelta(t, 600, took(report), 2)
			require.Equal(t, []string{"cleanup tidy"}, w.stages())
		} else {
			require.InDelta(t, (time.Minute + time.Hour + dispatch.KillLimit).Seconds(), took(report), 2)
			require.Equal(t, []job.HookRun{{Stage: "cleanup", Hook: "tidy", Skipped: "work was still running"}}, report.Hooks)
		}
	}
}

// holdHook makes the first hook run, as on a server, until over is set; cancelled says that its end is
// wanted.
func (w *world) holdHook() (cancelled, over *bool) {
	cancelled, over = new(bool), new(bool)
	held := false
	w.inPlaceOfHook = func(ctx workflow.Context) workflow.Future {
		if held {
			return nil
		}
		held = true
		future, settable := workflow.NewFuture(ctx)
		detached, _ := workflow.NewDisconnectedContext(ctx)
		workflow.Go(detached, func(detached workflow.Context) {
			ctx.Done().Receive(detached, nil)
			*cancelled = true
			if !workflow.GetActivityOptions(ctx).WaitForCancellation {
				*over = true
			}
			for !*over {
				_ = workflow.Sleep(detached, time.Second)
			}
			settable.SetError(temporal.NewCanceledError())
		})
		return future
	}
	return cancelled, over
}
