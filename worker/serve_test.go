package worker

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/child"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// program makes a handler of the obedient program.
func (f *fixture) program(kind string) Handler {
	f.options.Env = append(f.options.Env, asProgram+"="+kind, raceOptions)
	return Serve("/proc/self/exe")
}

// obey runs the obedient program over items that say what it has to do, one slot, and returns their
// outcomes.
func (f *fixture) obey(items ...string) outcome {
	f.t.Helper()
	if f.options.Slots == 0 {
		f.options.Slots = 1
	}
	f.batch = 1000
	return f.run(f.program("yes"), "in.txt", lines(items...))
}

// only returns the only failure.
func (o outcome) only(t *testing.T) job.Failure {
	t.Helper()
	require.Len(t, o.failures, 1)
	return o.failures[0]
}

func TestServe_Echo(t *testing.T) {
	t.Parallel()
	for _, calls := range []int{0, oneItem, 1, 7, 1000} {
		t.Run(fmt.Sprint(calls), func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.options.CallItems, f.options.Slots, f.batch = calls, 2, 100
			var in strings.Builder
			for i := range 2500 {
				fmt.Fprintf(&in, `{"id":%d,"name":"Zoë <&> %d"}`+"\n", i, i)
			}
			o := f.run(f.program("yes"), "in.jsonl", in.String())
			require.Empty(t, o.failures)
			require.Equal(t, in.String(), o.output)
			if calls > 0 {
				require.LessOrEqual(t, o.totals.CallMax, int64(calls))
			}
		})
	}
}

// B8, B7, B4: values, null, drops and errors, each to its item.
func TestServe_Results(t *testing.T) {
	t.Parallel()
	f := setup(t)
	o := f.obey("a", "null", "drop", "error no such colour", "b")
	require.Equal(t, lines(`"a"`, "null", `"b"`), o.output)
	failure := o.only(t)
	require.EqualValues(t, 3, failure.Item)
	require.Equal(t, job.KindError, failure.Kind)
	require.Equal(t, job.Error{Type: "Bad", Message: "no such colour", Stack: "here"}, failure.Error)
	require.Equal(t, 1, failure.Attempts)
	require.EqualValues(t, 4, o.totals.OK)
	require.EqualValues(t, 1, o.totals.Dropped)
	require.Empty(t, f.happened(slotReplaced))
}

func TestServe_ItemAttempts(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.limits.ItemAttempts = 3
	o := f.obey("a", "error no", "drop", "b")
	require.Equal(t, lines(`"a"`, `"b"`), o.output)
	require.Equal(t, 3, o.only(t).Attempts)
}

// What is not JSON does not reach the program.
func TestServe_InvalidItems(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Slots = 1
	o := f.run(f.program("yes"), "in.jsonl", lines(`{"a":1}`, `{"a":`, `[1,2]`, "]", "4"))
	require.Equal(t, lines(`{"a":1}`, `[1,2]`, "4"), o.output)
	require.Equal(t, []int64{1, 3}, o.items())
	require.Equal(t, job.KindInvalid, o.failures[0].Kind)
}

// K1, K2, K3, K8, B6: whatever an item does to its process, it alone fails, and the slot continues with
// the next incarnation.
func TestServe_BadItems(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	for _, c := range []struct {
		item, kind, typ string
		says            string
	}{
		{"exit 3", job.KindCrash, "Exit", "exit 3: last words"},
		{"exit 0", job.KindCrash, "Exit", "it exited with status 0 while it should serve: last words"},
		{"kill", job.KindCrash, "Signal", "signal: killed"},
		{"garbage", job.KindCrash, "Protocol", `not a frame: "Loading model…"`},
		{"notype", job.KindCrash, "Protocol", `it has no "type"`},
		{"wrongfield", job.KindCrash, "Protocol", `\"seven\"`},
		{"stranger", job.KindCrash, "Protocol", "results for call 4711, which is not under way"},
		{"none", job.KindCrash, "Protocol", `none of "value", "drop", "error" and "retry_after"`},
		{"big", job.KindCrash, "Protocol", "a frame of more than 67108864 bytes"},
		{"close", job.KindCrash, "Protocol", "it closed its standard output"},
		{"scopes", job.KindCrash, "Protocol", "it does not read its standard input"},
		{"short", job.KindLength, "Length", "answered with 0 results"},
		{"fail all of it", job.KindError, "Whole", "all of it"},
		{"scope 0s", job.KindExpired, "Expired", "scope my scope was held longer than 0s"},
		{"scope 50ms", job.KindExpired, "Expired", "scope my scope was held longer than 50ms"},
		{"term", job.KindExpired, "Expired", "scope polite was held longer than 0s"},
	} {
		t.Run(c.item, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.limits.Attempts = 2
			o := f.obey("1", "2", "3", c.item, "5", "6")
			require.Equal(t, lines(`"1"`, `"2"`, `"3"`, `"5"`, `"6"`), o.output)
			failure := o.only(t)
			require.EqualValues(t, 3, failure.Item)
			require.Equal(t, c.kind, failure.Kind, "%+v", failure)
			require.Equal(t, c.typ, failure.Error.Type)
			require.Contains(t, failure.Error.Message, c.says)
			died := f.happened(slotReplaced)
			if c.kind == job.KindLength || c.kind == job.KindError {
				require.Empty(t, died, "the process lives on")
				return
			}
			require.LessOrEqual(t, len(died), 2*3+2, "K8")
			for i, e := range died {
				require.Equal(t, i+1, e.Incarnation)
				require.NotZero(t, e.PID)
				require.Error(t, e.Err)
				require.Equal(t, i >= 2, e.Free, "restarts while a fault is narrowed down cost nothing")
			}
		})
	}
}

// A second answer breaks the protocol; the first one counts.
func TestServe_AnswersTwice(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.CallItems = 1
	o := f.obey("1", "twice", "3")
	require.Equal(t, lines(`"1"`, `"twice"`, `"3"`), o.output)
	died := f.happened(slotReplaced)
	require.Len(t, died, 1)
	require.ErrorContains(t, died[0].Err, "results for call 2, which is not under way")
}

// T15, T17: a call that outlasts its limit is ended, and its stacks are in the error.
func TestServe_CallTimeout(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.limits.Timeout, f.limits.Attempts = 300*time.Millisecond, 1
	o := f.obey("1", "hang", "3")
	require.Equal(t, lines(`"1"`, `"3"`), o.output)
	failure := o.only(t)
	require.Equal(t, job.KindExpired, failure.Kind)
	require.Contains(t, failure.Error.Message, "the call took longer than 300ms")
	require.Contains(t, failure.Error.Stack, "obedient).do", "where it hung")
}

// K2: results that were given before a crash are kept; what was answered is not run again.
func TestServe_KeepsWhatWasAnswered(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.limits.Attempts = 3
	o := f.obey("stream 1", "stream 2", "exit 3", "4")
	require.Equal(t, lines(`"stream 1"`, `"stream 2"`, `"4"`), o.output)
	require.EqualValues(t, 2, o.only(t).Item)
	require.EqualValues(t, 5, o.totals.Crashes, "three tries of the rest, two of the item alone")
}

// W3, W4: start is all or nothing, and its error is that of the slot.
func TestServe_StartFails(t *testing.T) {
	t.Parallel()
	for kind, says := range map[string][]string{
		"never ready":    {"slot ", "it did not say that it was ready within 500ms"},
		"not ready":      {"slot ", "NoModel", "model.bin is missing"},
		"dies at once":   {"slot ", "exit 4: cannot load"},
		"stops in init":  {"slot ", "it asked for a stop before it was ready: no licence"},
		"one slot fails": {"slot 1", "no device 1"},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.options.Slots = 3
			if kind == "never ready" {
				f.options.Ready = 500 * time.Millisecond
			}
			service, err := f.open(f.program(kind))
			require.NoError(t, err)
			err = service.start(t.Context())
			for _, s := range says {
				require.ErrorContains(t, err, s)
			}
			for _, e := range f.happened(slotReady) {
				require.False(t, alive(e.PID), "those that were up are ended")
			}
		})
	}
}

// K4: with its restarts used up a slot is out, and a worker without slots says so.
func TestServe_Budget(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Restarts = 1
	f.options.Slots = 1
	service, err := f.open(f.program("dies later"))
	require.NoError(t, err)
	require.NoError(t, service.start(t.Context()))
	ready := f.happened(slotReady)
	require.Len(t, ready, 1)
	f.running(0).child.Signal(syscall.SIGKILL)
	<-f.set.gone
	require.ErrorContains(t, f.set.why, "no slot is left: slot 0 is out after 1 restarts in a row")
	require.ErrorContains(t, f.set.why, "exit 5")
	require.Len(t, f.happened(slotOut), 1)
}

// W1, W2, W6, W7: the environment and hello of a process, before and after a restart.
func TestServe_Identity(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.limits.Attempts = 2
	f.options.Seed, f.options.CPUs, f.options.CallItems = 40, [][]int{{0}}, 1
	o := f.obey("who", "exit 1", "who")
	var before, after struct {
		Env  []string
		CPUs string `json:"cpus"`
		PID  int    `json:"pid"`
	}
	outs := strings.Split(strings.TrimSpace(o.output), "\n")
	require.Len(t, outs, 2)
	require.NoError(t, json.Unmarshal([]byte(outs[0]), &before))
	require.NoError(t, json.Unmarshal([]byte(outs[1]), &after))
	require.NotEqual(t, before.PID, after.PID)
	for _, env := range [][]string{before.Env, after.Env} {
		require.Contains(t, env, "STINT_WORKER=worker-1")
		require.Contains(t, env, "STINT_SLOT=0")
		require.Contains(t, env, "STINT_SEED=40")
		require.Contains(t, env, "STINT_MAX_RESTARTS=10")
		require.Contains(t, env, "OMP_NUM_THREADS=1")
	}
	require.Contains(t, before.Env, "STINT_INCARNATION=0")
	require.NotContains(t, after.Env, "STINT_INCARNATION=0")
	require.Equal(t, "0", before.CPUs)
	require.Equal(t, "0", after.CPUs)
}

func TestServe_CPUThatDoesNotExist(t *testing.T) {
	t.Parallel()
	err := Serve("cat").Check(Options{CPUs: [][]int{{1000}}})
	require.ErrorContains(t, err, "CPUs 1000: this process may not use that CPU")
}

// W8, K9: what a program has started dies with it.
func TestServe_Grandchildren(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.limits.Attempts = 1
	pidFile := filepath.Join(f.dir, "pid")
	o := f.obey("1", "family "+pidFile, "3")
	require.Equal(t, job.KindCrash, o.only(t).Kind)
	pid, err := strconv.Atoi(f.read(pidFile))
	require.NoError(t, err)
	require.False(t, alive(pid))
}

// A program that ignores bye and TERM is killed at the end.
func TestServe_StubbornAtTheEnd(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	f := setup(t)
	f.options.Slots = 1
	service, err := f.open(f.program("stubborn"))
	require.NoError(t, err)
	require.NoError(t, service.start(t.Context()))
	pid := f.happened(slotReady)[0].PID
	service.Close()
	require.False(t, alive(pid))
}

// A program may write to its standard error for ever.
func TestServe_Chatter(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.limits.Timeout, f.limits.Attempts = 300*time.Millisecond, 1
	o := f.obey("1", "chatter", "3")
	failure := o.only(t)
	require.Equal(t, job.KindExpired, failure.Kind)
	require.LessOrEqual(t, len(failure.Error.Stack), child.StderrKept+child.MaxStacks+100)
	require.Equal(t, lines(`"1"`, `"3"`), o.output)
}

func TestServe_OtherFrames(t *testing.T) {
	t.Parallel()
	f := setup(t)
	o := f.obey("log a month old", "stop disk full", "slow", "scoped", "report", "x")
	require.Empty(t, o.failures)
	stop := <-f.stops
	require.Equal(t, job.Stop{Reason: "disk full", Error: &job.Error{Type: "Full", Message: "no room"}}, stop)
	require.Equal(t, []measurement{{Name: "tokens", Value: 2}}, f.measured)
	require.Empty(t, f.happened(slotReplaced))
}

// A program that asks again and again for a stop is heard once in each call.
func TestServe_RequestStopOncePerCall(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.CallItems = oneItem
	o := f.obey("stops enough", "1", "stops enough")
	require.Empty(t, o.failures)
	for range 2 {
		require.Equal(t, job.Stop{Reason: "enough"}, <-f.stops)
	}
	require.Empty(t, f.stops)
}

// 200 items on 2 slots, while children are killed at random: every item has exactly one outcome.
func TestServe_KilledAtRandom(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Slots, f.options.CallItems, f.batch = 2, 5, 20
	f.options.Restarts = 1000
	f.limits.Attempts = 100
	random := seeded(t, 21)
	var in strings.Builder
	for i := range 200 {
		fmt.Fprintf(&in, "{\"id\":%d}\n", i)
	}
	f.serve(f.program("yes"))
	quit, done := make(chan struct{}), make(chan struct{})
	kills := 0
	go func() {
		defer close(done)
		for kills < 50 {
			select {
			case <-quit:
				return
			case <-time.After(time.Duration(random.IntN(3)) * time.Millisecond):
			}
			if p := f.running(random.IntN(2)); p != nil {
				p.child.Signal(syscall.SIGKILL)
				kills++
			}
		}
	}()
	o := f.flowOf("in.jsonl", in.String())
	close(quit)
	<-done
	require.Equal(t, in.String(), o.output)
	last := map[int]int{}
	for _, e := range f.happened(slotReplaced) {
		require.Equal(t, last[e.Slot]+1, e.Incarnation, "they count up, slot by slot")
		last[e.Slot] = e.Incarnation
	}
	t.Logf("%d kills, incarnations %v", kills, last)
}

// K3: the error of a process that the kernel has killed for want of memory says so.
func TestServe_OutOfMemory(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Slots, f.limits.Attempts, f.batch = 1, 1, 1000
	service, err := f.open(f.program("yes"))
	require.NoError(t, err)
	var kills atomic.Int64
	service.(*host).oomKills = func() int64 { return kills.Add(1) }
	require.NoError(t, service.start(t.Context()))
	o := f.flowOf("in.txt", lines("a", "kill", "exit 1"))
	require.Equal(t, []int64{1, 2}, o.items())
	require.Contains(t, o.failures[0].Error.Message, "signal: killed (likely out of memory")
	require.NotContains(t, o.failures[1].Error.Message, "memory", "it ended by itself")
}

// A program that asks for more timers than it may hold gets an error, and lives on.
func TestServe_TooManyScopes(t *testing.T) {
	t.Parallel()
	f := setup(t)
	o := f.obey("hoard", "b")
	require.Contains(t, o.output, "ScopeError")
	require.Contains(t, o.output, "10000 timers are held already")
	require.Empty(t, o.failures)
	require.Empty(t, f.happened(slotReplaced))
}

// T17: a program that stops reading is ended when its call has expired, though the call is not yet
// written; another one does the work.
func TestServe_StopsReading(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Slots, f.limits.Timeout, f.limits.Attempts, f.batch = 1, 2*time.Second, 2, 1000
	o := f.run(f.program("deaf once"), "in.txt", bulky)
	require.Empty(t, o.failures)
	require.EqualValues(t, 100, o.totals.OK)
	require.EqualValues(t, 1, o.totals.Expiries)
	require.ErrorContains(t, f.happened(slotReplaced)[0].Err, "the call took longer than 2s")
}

// S2, T17: the same at the end of a stop's grace.
func TestServe_StopsReadingBeforeAStop(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Slots = 1
	f.serve(f.program("deaf once"))
	p := f.running(0)
	begun := make(chan struct{})
	go func() {
		defer close(begun)
		for !p.writesSlowly() {
			time.Sleep(time.Millisecond)
		}
	}()
	done := f.stopped(bulky, begun)
	require.NotNil(t, done.Rest)
	require.Zero(t, done.Entry.Count)
	<-p.ended
	require.True(t, p.free)
}

// bulky are items of which a call does not fit into a pipe.
var bulky = strings.Repeat(strings.Repeat("x", 4096)+"\n", 100)

// writesSlowly reports whether a call waits for the program to read.
func (p *program) writesSlowly() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.calls) > 0
}

// B12: too large a result, or error, concerns its item alone, and is kept in part at most.
func TestServe_TooLarge(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	f := setup(t)
	most, more := "large "+strconv.Itoa(calls.MaxResult), "large "+strconv.Itoa(calls.MaxResult+1)
	o := f.obey("a", most, more, "bulk", "b")
	require.Len(t, o.output, len(lines(`"a"`, `"b"`))+calls.MaxResult+1)
	require.Equal(t, []int64{2, 3}, o.items())
	require.Equal(t, "TooLarge", o.failures[0].Error.Type)
	require.Equal(t, job.KindError, o.failures[0].Kind)
	require.LessOrEqual(t, len(o.failures[1].Error.Type), 200)
	require.LessOrEqual(t, len(o.failures[1].Error.Message), 64<<10)
	require.Empty(t, f.happened(slotReplaced))
}
