package worker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pythonPrelude is what the programs below begin with. How quickly a busy machine answers is not
// tested here.
const pythonPrelude = `
import os, time, stint

stint._ANSWER_LIMIT = 60

def lines(path):
    return len(open(path).readlines()) if os.path.exists(path) else 0

def note(path):
    with open(path, "a") as file:
        file.write("x\n")

def wait(path, n=1):
    while lines(path) < n:
        time.sleep(0.005)
`

// pythonProgram makes a handler of a program in Python, which finds the fixture's directory in BOX.
func (f *fixture) pythonProgram(name, text string) Handler {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	require.NoError(f.t, os.WriteFile(path, []byte(text), 0o600))
	f.options.Env = append(f.options.Env, "BOX="+f.dir)
	return f.python(path)
}

// lineOf is the number of the text's line that has this in it.
func lineOf(t *testing.T, text, what string) int {
	t.Helper()
	before, _, found := strings.Cut(text, what)
	require.True(t, found)
	return strings.Count(before, "\n") + 1
}

// within waits until a condition holds. It returns false if that takes too long.
func within(holds func() bool) bool {
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// T6, T8, T15, K5: of eight slots, those with even numbers hang in a scope. Their processes are
// killed, and their items have expired; the others' processes stay as they are.
func TestPython_HalfOfTheSlotsHang(t *testing.T) {
	t.Parallel()
	const slots = 8
	text := pythonPrelude + `
def work(items):
    note(os.environ["BOX"] + "/all")
    wait(os.environ["BOX"] + "/all", 8)
    if stint.info.slot % 2 == 0:
        with stint.expires(1.0):
            time.sleep(60)
    return items

stint.serve(work)
`
	f := setup(t)
	f.options.Slots, f.batch, f.limits.Attempts = slots, 1, 2
	f.serve(f.pythonProgram("hang.py", text))
	var began []*program
	for slot := range slots {
		began = append(began, f.running(slot))
	}
	o := f.flowOf("in.txt", strings.Repeat("item\n", slots))

	require.EqualValues(t, slots/2, o.totals.OK)
	require.Len(t, o.failures, slots/2)
	scope := lineOf(t, text, "stint.expires")
	for _, failure := range o.failures {
		require.Equal(t, job.KindExpired, failure.Kind)
		require.Regexp(t, fmt.Sprintf(`^scope hang\.py#%d was held longer than 1s \([0-9.]+m?s overdue\)$`, scope), failure.Error.Message)
		require.Contains(t, failure.Error.Stack, fmt.Sprintf(`hang.py", line %d in work`, scope+1))
		require.Equal(t, 2, failure.Attempts, "it was retried")
	}
	require.EqualValues(t, slots/2*2, o.totals.Expiries)
	for slot, p := range began {
		if slot%2 == 1 {
			require.Same(t, p, f.running(slot), "slot %d", slot)
			require.False(t, p.over())
			require.Zero(t, p.incarnation)
			continue
		}
		<-p.ended
		status := p.child.Cmd.ProcessState.Sys().(syscall.WaitStatus)
		require.True(t, status.Signaled())
		require.Equal(t, syscall.SIGKILL, status.Signal())
	}
	for _, e := range append(f.happened(slotReplaced), f.happened(timerExpired)...) {
		require.Zero(t, e.Slot%2, "%v", e)
	}
}

// T13: ten processes hold ten scopes each, one within the other, at the same time, and let them go.
func TestPython_ManyScopesAtOnce(t *testing.T) {
	t.Parallel()
	const slots, scopes = 10, 10
	f := setup(t)
	f.options.Slots, f.batch = slots, 1
	f.serve(f.pythonProgram("many.py", pythonPrelude+`
import contextlib

def nested(then):
    with contextlib.ExitStack() as stack:
        for i in range(10):
            stack.enter_context(stint.expires(1000, f"scope {i}"))
        then()

def meet():
    note(os.environ["BOX"] + "/held")
    wait(os.environ["BOX"] + "/go")

def work(items):
    nested(meet)
    for _ in range(20):
        nested(lambda: None)
    return items

stint.serve(work)
`))
	held := make(chan []int, 1)
	go func() {
		all := make([]int, slots)
		if within(func() bool { return count(filepath.Join(f.dir, "held")) == slots }) {
			for slot := range all {
				all[slot] = f.running(slot).client.Held()
			}
		}
		note(filepath.Join(f.dir, "go"))
		held <- all
	}()
	o := f.flowOf("in.txt", strings.Repeat("item\n", slots))
	require.Empty(t, o.failures)
	for slot, n := range <-held {
		require.Equal(t, scopes, n, "slot %d", slot)
		require.Zero(t, f.running(slot).client.Held())
	}
	require.Empty(t, f.happened(slotReplaced))
}

// T2, T3: scopes without a name are distinguished by where they are entered, really the caller's line;
// equal ones are one timer, however deep.
func TestPython_Scopes(t *testing.T) {
	t.Parallel()
	text := pythonPrelude + `
def stage(name):
    note(os.environ["BOX"] + "/" + name)
    wait(os.environ["BOX"] + "/" + name + ".seen")

def sites():
    with stint.expires(1000):
        with stint.expires(1000):
            stage("two sites")
        stage("one site")

def deep(n):
    with stint.expires(1000):
        if n > 0:
            deep(n - 1)
            stage(f"left {n}")
        else:
            stage("recursion")

def again():
    for i in range(2):
        with stint.expires(1000):
            stage(f"round {i}")

def named():
    with stint.expires(1000, "a"), stint.expires(2000, "b"), stint.expires(500, "a"):
        stage("named")

def deadly(n):
    with stint.expires(1000 if n > 0 else 0):  # deadly
        if n > 0:
            deadly(n - 1)
        time.sleep(1000)

def work(items):
    sites(), deep(2), again(), named(), stage("none")
    deadly(3)

stint.serve(work)
`
	f := setup(t)
	f.options.Slots, f.limits.Attempts = 1, 1
	stages := []struct {
		name string
		held int
	}{
		{"two sites", 2},
		{"one site", 1},
		{"recursion", 1},
		{"left 1", 1},
		{"left 2", 1},
		{"round 0", 1},
		{"round 1", 1},
		{"named", 2},
		{"none", 0},
	}
	f.serve(f.pythonProgram("scopes.py", text))
	p := f.running(0)
	held := make(chan int, len(stages))
	go func() {
		defer close(held)
		for _, stage := range stages {
			path := filepath.Join(f.dir, stage.name)
			if !within(func() bool { return count(path) == 1 }) {
				return
			}
			p.Settle(t.Context()) // a release has no answer
			held <- p.client.Held()
			note(path + ".seen")
		}
	}()
	failure := f.flowOf("in.txt", "item\n").only(t)
	for _, stage := range stages {
		require.Equal(t, stage.held, <-held, stage.name)
	}
	require.Equal(t, job.KindExpired, failure.Kind)
	require.Contains(t, failure.Error.Message, fmt.Sprintf("scope scopes.py#%d was held longer than 0s", lineOf(t, text, "# deadly")))
	require.Zero(t, p.client.Held(), "T6: the timers are gone with their process")
}

// T1, T2, T6: timers are the program's, not a call's. Acquiring one again keeps it one, releasing
// what is not held does nothing, and the next incarnation starts with none.
func TestServe_ScopesOverCalls(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Slots, f.limits.Attempts = 1, 1
	f.serve(f.program("yes"))
	for _, step := range []struct {
		item string
		held int
	}{
		{"hold 1000s a", 1},
		{"hold 2000s a", 1},
		{"let b", 1},
		{"hold 1000s b", 2},
		{"let a", 1},
		{"let a", 1},
		{"hold 1000s a", 2},
	} {
		done, err := f.process(lines(step.item))
		require.NoError(t, err)
		require.EqualValues(t, 1, done.Totals.OK, step.item)
		require.Equal(t, step.held, f.running(0).client.Held(), step.item)
	}
	first := f.running(0)
	_, err := f.process(lines("hold 0s a")) // the new deadline counts, between calls too
	require.NoError(t, err)
	<-first.ended
	expired := f.happened(timerExpired)
	require.Len(t, expired, 1)
	require.ErrorContains(t, expired[0].Err, "a took longer than 0s")
	require.Zero(t, first.client.Held())
	done, err := f.process(lines("hold 1000s c"))
	require.NoError(t, err)
	require.EqualValues(t, 1, done.Totals.OK)
	second := f.running(0)
	require.NotSame(t, first, second)
	require.Equal(t, 1, second.client.Held())
	done, err = f.process(lines("exit 3"))
	require.NoError(t, err)
	require.EqualValues(t, 1, done.Totals.Failed)
	<-second.ended
	require.Zero(t, second.client.Held(), "however it ended")
}

// T5: before a program is ended, the frames that it has sent are handled, however far the worker is
// behind with its frames: so a release that was sent in time saves it.
func TestServe_ReleaseInTime(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Slots, f.limits.Attempts = 1, 1
	metrics := make(chan chan struct{}) // each is handled once its channel is closed
	h := f.program("yes")
	open := h.open
	h.open = func(s dependencies) (calls.Handler, service, error) {
		s.measure = func(string, bool, int, float64) {
			dealtWith := make(chan struct{})
			select {
			case metrics <- dealtWith:
			case <-t.Context().Done():
				return
			}
			select {
			case <-dealtWith:
			case <-t.Context().Done():
			}
		}
		return open(s)
	}
	f.serve(h)
	p := f.running(0)
	sent := filepath.Join(f.dir, "sent")
	failed := make(chan int64, 1)
	go func() {
		done, err := f.process(lines("tight 1h " + sent))
		assert.NoError(t, err)
		failed <- done.Totals.Failed
	}()
	first := <-metrics
	require.True(t, within(func() bool { return count(sent) == 1 }))
	p.requireBehind(t) // with what waits in the pipe
	close(first)
	second := <-metrics
	p.requireBehind(t) // with what it has read
	close(second)
	p.Settle(t.Context())
	require.Zero(t, p.client.Held())
	require.Zero(t, <-failed)
}

// requireBehind requires that the worker waits for the program's frames, the last of which is a release.
func (p *program) requireBehind(t *testing.T) {
	t.Helper()
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	p.Settle(short)
	require.Error(t, short.Err())
	require.Equal(t, 1, p.client.Held())
}

// T6, B9: of many calls at once, a scope that is held too long expires its own call alone. The others were in the same
// process, and are made again side by side, without having been tried.
func TestPython_ScopeOfOneCallOfMany(t *testing.T) {
	t.Parallel()
	text := pythonPrelude + `
def work(items):
    note(os.environ["BOX"] + "/all")
    if items[0] == "bad":
        wait(os.environ["BOX"] + "/all", 8)
        with stint.expires(0.2):
            time.sleep(60)
    wait(os.environ["BOX"] + "/all", 16)
    return items

stint.serve(work)
`
	f := setup(t)
	f.options.Slots, f.options.Concurrency, f.options.CallItems = 1, 8, 1
	f.limits.Attempts = 1
	o := f.run(f.pythonProgram("work.py", text), "in.txt", lines("a", "b", "c", "bad", "d", "e", "f", "g", "h", "i"))
	require.Len(t, o.failures, 1)
	require.EqualValues(t, 3, o.failures[0].Item)
	require.Equal(t, job.KindExpired, o.failures[0].Kind)
	require.EqualValues(t, 9, o.totals.OK)
	require.EqualValues(t, 1, o.totals.Expiries)
	require.Zero(t, o.totals.Crashes, "what else was in the process has not crashed")
	require.Zero(t, o.totals.Retries)
}
