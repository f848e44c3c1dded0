package starter_test

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	waitingCalls = 34  // of a slot at once: all slots make 200
	waitingBatch = 200 // items
	// waitingWindow is the most batches in flight. Any number of them may share a slot, so a fault of
	// one worker may hit all of them.
	waitingWindow = 2 * chaosWorkers * chaosSlots
)

// patient is a program that waits over each item, over some of them so long that what is done behind them
// is held back. It notes when it has as many calls in hand as it can have.
const patient = `
import threading

count = threading.Lock()
calls = 0

def work(item):
    global calls
    with count:
        calls += 1
        full = calls == CALLS
    if full:
        note("full", os.getpid())
    note("witness", item)
    number = int(item)
    time.sleep(0.5 if number % 97 == 0 else (20 + number * 7919 % 31) / 1000)
    with count:
        calls -= 1
    return item

stint.serve(stint.each(work))
`

// waitingGrace is too short for the items that wait long: a stop cuts them off, and what is done behind them is lost.
const waitingGrace = 100 * time.Millisecond

// waitingFaults are the faults that are the same with calls at once, but for what they may have run twice, and
// those of programs with many calls in hand.
func waitingFaults() []fault {
	all := slices.Clone(faults)
	for i, f := range all {
		if f.repeats > 1 || f.name == stopped {
			all[i].repeats = waitingWindow
		}
	}
	return slices.Concat(all, []fault{
		{"all children are killed", chaosWorkers * chaosSlots, (*chaos).killChildren},
		{"a child is frozen", 0, (*chaos).freezeChild},
	})
}

// killChildren kills all programs, with all calls that they have in hand.
func (c *chaos) killChildren() {
	for _, pid := range marked(c.t, c.mark) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone
	}
}

// freezeChild has a program stand still for a while, and with it all calls that it has in hand. Its worker beats.
func (c *chaos) freezeChild() {
	frozen := 0
	eventually(c.t, "a child", func() bool {
		children := marked(c.t, c.mark)
		if len(children) == 0 {
			return false
		}
		frozen = children[c.random.IntN(len(children))]
		return syscall.Kill(frozen, syscall.SIGSTOP) == nil
	})
	time.Sleep(c.tooLong())                   // this is the fault, not a wait for something
	_ = syscall.Kill(frozen, syscall.SIGCONT) // it may be gone
}

// TestChaos_WaitingShort is a short round of TestChaos_Waiting.
func TestChaos_WaitingShort(t *testing.T) {
	t.Parallel()
	withstandWaiting(t, 20_000, 6)
}

// TestChaos_Waiting: with 200 calls in hand, faults show as little in the output as with one in each slot.
func TestChaos_Waiting(t *testing.T) {
	t.Parallel()
	chaotic(t, func(t *testing.T) { withstandWaiting(t, 200_000, 30) })
}

// withstandWaiting is withstand for work that waits, of which the workers do 200 items at once.
func withstandWaiting(t *testing.T, n, number int) {
	t.Helper()
	c := newChaos(t, n)
	c.handler = append(c.python("patient.py", "CALLS = "+itoa(waitingCalls)+patient), "--concurrency", itoa(waitingCalls))
	c.flags = []string{"--window", itoa(waitingWindow), "--grace", waitingGrace.String()}
	c.results, c.batch, c.windows = quoted(numbers(n)), waitingBatch, waitingWindow-chaosWorkers*chaosSlots+1
	c.begin(c.write("in.txt", numbers(n)), "out.txt")
	c.rage(c.choose(waitingFaults(), number))
	c.end(func() string { return c.read("out.txt") })
	t.Logf("%d items were done behind one that a stop cut off", c.behind)
	require.Positive(t, c.lines("full"), "no program had all of its calls at once")
}
