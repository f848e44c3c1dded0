package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
)

// S13: a handler sees a stop coming, why and by when, while its context continues; what it does with the
// time is kept.
func TestStopping_IsSeenByHandlers(t *testing.T) {
	t.Parallel()
	c := setup(t)
	begun := make(chan struct{}, 10)
	c.serve(worker.Each(func(ctx context.Context, text string) (string, error) {
		_, _, early := worker.StopNotice(ctx)
		begun <- struct{}{}
		<-worker.Stopping(ctx)
		reason, end, told := worker.StopNotice(ctx)
		if early || !told || ctx.Err() != nil || time.Until(end) < time.Minute {
			return "", errors.New("it was not told in time")
		}
		return text + " " + reason, nil
	}), worker.Options{Slots: 1})
	run, _ := c.start("in.txt", "a\nb\n", func(s *job.Spec) { s.Grace = time.Hour })
	<-begun
	require.NoError(t, run.Stop(t.Context(), job.Stop{Reason: "maintenance"}))
	report := c.wait(run)
	require.Equal(t, job.Stopped, report.State)
	require.EqualValues(t, 1, report.OK, "%+v", report.FirstError)
}

// ignoresTERM is a filter, and a serve program, that notes in the file "order" what it is asked, in "frame" the frame
// that announces a stop, and ends only when it is killed.
const ignoresTERM = `
trap 'echo TERM >> order' TERM
echo '{"type":"ready"}'
while :; do
	if read line; then case $line in
	*'"stopping"'*) echo "$line" > frame; echo stopping >> order ;;
	*'"call"'* | a) echo $$ > pid ;;
	esac; else sleep 0.05; fi
done`

// S2: a running process gets the notice, the grace, then TERM, then KILL, and is not left running. The grace is longer
// than a slow machine takes to bring the notice.
func TestStop_EndsInOrder(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{"exec": "TERM\n", "serve": "stopping\nTERM\n"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := setup(t)
			h := worker.Exec("sh", "-c", ignoresTERM)
			if kind == "serve" {
				h = worker.Serve("sh", "-c", ignoresTERM)
			}
			c.serve(h, worker.Options{Slots: 1, Dir: c.dir, KillAfter: time.Second})
			run, _ := c.start("in.txt", "a\n", nil)
			pid := filepath.Join(c.dir, "pid")
			require.Eventually(t, func() bool { data, _ := os.ReadFile(pid); return len(data) > 1 }, patience, pollEvery)
			require.NoError(t, run.Stop(t.Context(), job.Stop{Reason: "enough", Grace: "10s"}))
			report := c.wait(run)
			require.Equal(t, job.Stopped, report.State)
			require.Empty(t, report.Stragglers)
			require.Zero(t, report.OK)
			require.Zero(t, report.Failed, "being cut off is not the item's fault")
			require.False(t, report.Ended.Before(*report.StopDeadline), "it had the grace")
			require.Equal(t, want, c.read("order"))
			if kind == "serve" {
				var frame struct {
					Reason string
					Grace  float64
				}
				require.NoError(t, json.Unmarshal([]byte(c.read("frame")), &frame))
				require.Equal(t, "enough", frame.Reason)
				require.Positive(t, frame.Grace)
				require.LessOrEqual(t, frame.Grace, 10.0)
			}
			number, err := strconv.Atoi(strings.TrimSpace(c.read("pid")))
			require.NoError(t, err)
			require.ErrorIs(t, syscall.Kill(number, 0), syscall.ESRCH, "it was killed")
			require.Len(t, report.Forced, 1)
			forced := report.Forced[0]
			require.NotEmpty(t, forced.Worker)
			forced.Worker = ""
			require.Equal(t, job.ForcedEnd{Batch: "batch 1 · item 0", PID: number, Signal: "KILL"}, forced)
		})
	}
}

// S15: a handler that ignores the drain does not keep the batch of its worker from continuing elsewhere. What is left
// of the drain when it is killed, a twentieth, is enough for the batch's answer; on a slow machine that of a longer
// drain.
func TestDrain_OfWhatIgnoresTERM(t *testing.T) {
	t.Parallel()
	for kind, h := range map[string]worker.Handler{
		"exec": worker.Exec("sh", "-c", ignoresTERM), "serve": worker.Serve("sh", "-c", ignoresTERM),
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			retries := drainOfStubborn(t, h, 20*time.Second)
			for _, drain := range []time.Duration{time.Minute, 3 * time.Minute} {
				if retries > 0 {
					retries = drainOfStubborn(t, h, drain)
				}
			}
			require.Zero(t, retries)
		})
	}
}

// drainOfStubborn drains a worker whose handler ignores that, and returns how often its batch was tried again.
func drainOfStubborn(t *testing.T, h worker.Handler, drain time.Duration) int64 {
	t.Helper()
	c := setup(t)
	stubborn := c.serve(h, worker.Options{Slots: 1, Dir: c.dir, Drain: drain})
	run, _ := c.start("in.txt", "a\n", func(s *job.Spec) { s.Expiry = time.Hour })
	pid := filepath.Join(c.dir, "pid")
	require.Eventually(t, func() bool { data, _ := os.ReadFile(pid); return len(data) > 1 }, patience, pollEvery)
	c.serve(worker.Each(func(_ context.Context, text string) (string, error) { return text, nil }), worker.Options{Slots: 1})
	stubborn.drain()
	report := c.wait(run)
	require.Equal(t, job.Completed, report.State)
	require.EqualValues(t, 1, report.OK)
	require.Zero(t, report.Expiries)
	require.Contains(t, c.read("order"), "TERM\n")
	return report.Retries
}

// S10: any number of waiters get the same answer, at once and later again.
func TestStop_ManyWait(t *testing.T) {
	t.Parallel()
	const waiters = 30
	c := setup(t)
	begun := make(chan struct{})
	c.serve(worker.Each(func(ctx context.Context, text string) (string, error) {
		close(begun)
		<-worker.Stopping(ctx)
		return text, nil
	}), worker.Options{Slots: 1})
	run, _ := c.start("in.txt", "a\nb\n", func(s *job.Spec) { s.BatchItems = 2 })
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	reports, errs := make([]job.Report, waiters), make([]error, waiters)
	var all sync.WaitGroup
	for i := range waiters {
		all.Go(func() { reports[i], errs[i] = jobs.NewClient(c.client, nil).Get("job").Wait(ctx) })
	}
	require.NoError(t, run.Stop(ctx, job.Stop{Reason: "that will do"}))
	first := c.wait(run)
	require.Equal(t, job.Stopped, first.State)
	require.EqualValues(t, 1, first.OK)
	all.Wait()
	for i := range waiters {
		require.NoError(t, errs[i])
		require.Equal(t, first, reports[i])
	}
	require.Equal(t, first, c.wait(run), "again later")
}

// S13: a handler asks for a stop itself: with an error that makes the job fail, or without.
func TestRequestStop_ByHandlers(t *testing.T) {
	t.Parallel()
	for _, failing := range []bool{false, true} {
		c := setup(t)
		var once sync.Once
		c.serve(worker.Each(func(ctx context.Context, text string) (string, error) {
			var err error
			if failing {
				err = errors.New("the table is gone")
			}
			asked := errors.New("not asked")
			once.Do(func() { asked = worker.RequestStop(ctx, err) })
			<-worker.Stopping(ctx)
			return text, asked
		}), worker.Options{Slots: 1})
		run, _ := c.start("in.txt", "a\nb\n", nil)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		report, err := run.Wait(ctx)
		cancel()
		require.EqualValues(t, 1, report.OK)
		if !failing {
			require.NoError(t, err)
			require.Equal(t, job.Stopped, report.State)
			require.Equal(t, "a handler asked for it", report.Reason)
			continue
		}
		var failed *jobs.FailedError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, "the table is gone", report.Error.Message)
	}
}

// Outside of a call there is no notice, and no job to stop.
func TestStopping_OutsideOfACall(t *testing.T) {
	t.Parallel()
	require.Nil(t, worker.Stopping(t.Context()))
	_, _, told := worker.StopNotice(t.Context())
	require.False(t, told)
	require.ErrorContains(t, worker.RequestStop(t.Context(), nil), "pass on the one that the handler was given")
}

// S3: of fifty errors that handlers report at once, one is the job's, and the others are listed.
func TestRequestStop_FiftyAtOnce(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	const n = 50
	c := setup(t)
	var all sync.WaitGroup
	all.Add(n)
	c.serve(worker.Each(func(ctx context.Context, text string) (string, error) {
		all.Done()
		all.Wait()
		return text, worker.RequestStop(ctx, errors.New("error of "+text))
	}), worker.Options{Slots: n})
	var input string
	for i := range n {
		input += string(rune('A'+i)) + "\n"
	}
	run, _ := c.start("in.txt", input, func(s *job.Spec) { s.BatchItems, s.Grace = 1, time.Hour })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	report, err := run.Wait(ctx)
	var failed *jobs.FailedError
	require.ErrorAs(t, err, &failed)
	require.Contains(t, report.Error.Message, "error of ")
	require.Len(t, report.LaterErrors, limits.MaxLaterErrors)
	require.Equal(t, n-1-limits.MaxLaterErrors, report.LaterErrorsOmitted)
	require.NotContains(t, report.LaterErrors, *report.Error)
	again, _ := run.Wait(ctx)
	require.Equal(t, report.Error, again.Error, "S10: all who wait get the same answer, again later, too")
}

// S8: an error that is reported to a job that has ended is returned to the caller.
func TestRequestStop_OfAJobThatHasEnded(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	c := setup(t)
	c.serve(worker.Each(func(_ context.Context, text string) (string, error) { return text, nil }), worker.Options{Slots: 1})
	run, _ := c.start("in.txt", "a\n", nil)
	c.wait(run)
	late := &job.Error{Type: "Late", Message: "nobody listens"}
	err := run.Stop(t.Context(), job.Stop{Error: late})
	var ended *jobs.EndedError
	require.ErrorAs(t, err, &ended)
	require.Equal(t, job.Completed, ended.State)
	require.ErrorIs(t, err, late)
	require.ErrorAs(t, run.Stop(t.Context(), job.Stop{}), &ended, "S8: and of a plain stop it says so")
}

// W9: hooks are functions of the worker, and panics are their errors.
func TestHooks_OfGoPrograms(t *testing.T) {
	t.Parallel()
	c := setup(t)
	var mu sync.Mutex
	var calls []worker.HookCall
	c.serve(worker.Each(func(_ context.Context, text string) (string, error) { return text, nil }), worker.Options{
		Slots: 1,
		Hooks: map[string]worker.Hook{
			"prepare": func(_ context.Context, call worker.HookCall) error {
				mu.Lock()
				defer mu.Unlock()
				calls = append(calls, call)
				if len(calls) == 1 {
					panic("once")
				}
				return nil
			},
			"tidy": func(context.Context, worker.HookCall) error { return errors.New("no broom") },
		},
	})
	run, _ := c.start("in.txt", "a\n", func(s *job.Spec) { s.Init, s.Cleanup, s.Attempts = []string{"prepare"}, []string{"tidy"}, 2 })
	report := c.wait(run)
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, job.Completed, report.State)
	require.Len(t, calls, 2)
	require.Equal(t, calls[0].Key, calls[1].Key, "it can know that it is a repetition")
	require.Equal(t, "job", calls[0].Job)
	require.Equal(t, wire.HookInit, calls[0].Stage)
	require.Equal(t, "no broom", report.Hooks[1].Error.Message)
	for name, hook := range map[string]worker.Hook{"Bad Name": func(context.Context, worker.HookCall) error { return nil }, "nothing": nil} {
		_, err := worker.New(jobs.NewClient(c.client, nil), "pool", worker.Each(func(_ context.Context, s string) (string, error) { return s, nil }),
			worker.Options{Hooks: map[string]worker.Hook{name: hook}})
		require.ErrorContains(t, err, "hook")
	}
}

// A hook that starts a daemon ends when its own process does, and the daemon stays, even if it begins its session only
// after that.
func TestHooks_LeaveDaemonsBehind(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("there is no setsid")
	}
	const daemon = `setsid sh -c 'echo $$ > "$0.new"; mv "$0.new" "$0.pid"; while [ -e "$0" ]; do sleep 0.01; done; touch "$0.ended"' "$0" & `
	for name, c := range map[string]struct{ then, fault string }{
		"ends at once":         {},
		"waits for the daemon": {then: `while [ ! -e "$0.pid" ]; do sleep 0.01; done`},
		"fails":                {then: `echo 'no table' >&2; exit 3`, fault: "exit 3: no table"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lives := filepath.Join(t.TempDir(), "lives")
			require.NoError(t, os.WriteFile(lives, nil, 0o600))
			err := worker.HookCommand("sh", "-c", daemon+c.then, lives)(t.Context(), worker.HookCall{})
			if c.fault == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.fault)
			}
			exists := func(suffix string) func() bool {
				return func() bool { _, err := os.Stat(lives + suffix); return err == nil }
			}
			require.Eventually(t, exists(".pid"), patience, time.Millisecond, "the daemon was ended")
			text, err := os.ReadFile(lives + ".pid")
			require.NoError(t, err)
			pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
			require.NoError(t, err)
			require.NoError(t, syscall.Kill(pid, 0), "it lives")
			require.NoError(t, os.Remove(lives))
			require.Eventually(t, exists(".ended"), patience, time.Millisecond, "it has ended by itself")
		})
	}
}

// S17: a stop that was requested while no worker was alive holds for the next worker before its first item,
// in a job's own leg and in legs of their own.
func TestStop_WhileNoWorkerIsAlive(t *testing.T) {
	t.Parallel()
	for _, batches := range []int{8, 200} {
		t.Run(strconv.Itoa(batches), func(t *testing.T) {
			t.Parallel()
			c := setup(t)
			begun := make(chan struct{}, 1)
			first := c.serve(worker.Each(func(ctx context.Context, text string) (string, error) {
				select {
				case begun <- struct{}{}:
				default:
				}
				<-worker.Stopping(ctx)
				return text, nil
			}), worker.Options{Slots: 1})
			run, _ := c.start("in.txt", strings.Repeat("a\n", batches), func(s *job.Spec) { s.BatchItems = 1 })
			<-begun
			require.Eventually(t, func() bool {
				report, err := run.Report(t.Context())
				return err == nil && report.InFlight > 4
			}, patience, pollEvery)
			first.drain()
			first.await()
			require.NoError(t, run.Stop(t.Context(), job.Stop{Reason: "enough", Grace: "1h"}))
			var called atomic.Int64
			c.serve(worker.Each(func(_ context.Context, text string) (string, error) {
				called.Add(1)
				return text, nil
			}), worker.Options{Slots: 4})
			report := c.wait(run)
			require.Equal(t, job.Stopped, report.State)
			require.Zero(t, called.Load())
		})
	}
}

// waiter is a handler that waits, and knows how many of its calls are in hand.
type waiter struct{ atOnce, done atomic.Int64 }

func (w *waiter) handler() worker.Handler {
	return worker.Each(func(_ context.Context, text string) (string, error) {
		w.atOnce.Add(1)
		defer w.atOnce.Add(-1)
		defer w.done.Add(1)
		time.Sleep(20 * time.Millisecond) // what it waits for
		return text, nil
	})
}

// manyItems is so many strings as JSON.
func manyItems(n int) string {
	var all strings.Builder
	for i := range n {
		all.WriteString(strconv.Quote(strconv.Itoa(i)) + "\n")
	}
	return all.String()
}

// B9, S11, S12: a stop with many calls in hand, of a number that the worker has found out itself, ends in order; so
// does a drain, after which another worker does the rest. The report says how many calls a slot makes at once.
func TestStop_B9_Auto(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	c := setup(t)
	content := manyItems(40_000)
	auto := worker.Options{Slots: 2, AutoConcurrency: true}
	var first, second waiter
	drained := c.serve(first.handler(), auto)
	run, spec := c.start("in.jsonl", content, nil)
	require.Eventually(t, func() bool { return first.atOnce.Load() >= 100 }, patience, pollEvery)
	drained.drain()
	drained.await()
	done := first.done.Load()
	require.Less(t, done, int64(40_000))

	c.serve(second.handler(), auto)
	require.Eventually(t, func() bool { return second.atOnce.Load() >= 100 }, patience, pollEvery)
	require.NoError(t, run.Stop(t.Context(), job.Stop{Reason: "that will do"}))
	stopped := c.wait(run)
	require.Equal(t, job.Stopped, stopped.State)
	require.Empty(t, stopped.Stragglers)
	require.Zero(t, stopped.Failed)
	require.Zero(t, stopped.Expiries)
	require.GreaterOrEqual(t, stopped.OK, done, "what the drained worker has done counts")
	require.Greater(t, stopped.Workers[0].Concurrency, 1)

	resumed, err := jobs.NewClient(c.client, nil).Resume(t.Context(), spec.Name, jobs.ResumeOptions{})
	require.NoError(t, err)
	report := c.wait(resumed)
	require.Equal(t, job.Completed, report.State)
	require.EqualValues(t, 40_000, report.OK)
	require.True(t, content == c.read("out"), "the results, in order")
	require.LessOrEqual(t, first.done.Load()+second.done.Load(), int64(40_000)+report.Repeated+2000, "hardly anything twice")
}
