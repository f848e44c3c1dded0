package worker

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"

	"github.com/stint-run/stint/internal/run/child"
	"github.com/stint-run/stint/internal/run/guard"
)

// ChildMain runs those child processes of a worker that are this program again. Call it first thing
// in main (and in TestMain), with the Go handlers that [Options].Processes is used with:
//
//	func main() {
//		assess := worker.Each(Assess)
//		worker.ChildMain(assess)
//		…
//		w, err := worker.New(client, "risk", assess, worker.Options{Processes: true})
//
// There are two such child processes. The slot of a Go handler serves that handler until its worker ends it. The guard
// of a worker waits until the worker has gone, and then kills those of its children that are left. ChildMain does not
// return in these two; in every other process it returns at once.
//
// Without the call, [New] refuses Options.Processes. Everything else works without it, but no worker has a guard, and
// each logs a warning when it starts its first child process: if the worker dies, the kernel then ends only the
// processes that the worker has started itself, not those that they have started.
//
// What main does before the call happens in the child processes, too. A main that prints or that
// takes long to make its handlers calls ChildMain twice: first without handlers, which keeps what
// it prints out of the worker's way, and then with them. Every process must give the same handlers
// in the same order. ChildMain must not be called by several goroutines at once.
func ChildMain(handlers ...Handler) {
	guard.Main()
	h, slot, err := childMain.give(handlers)
	if err == nil && slot == nil {
		return
	}
	if err == nil {
		err = serveSlot(h, slot)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "serving as a slot of a worker: %v\n", err)
		os.Exit(exitProtocol)
	}
	os.Exit(0)
}

// slotHandler, in the environment, makes a process the slot of a Go handler. Its value is the
// handler's number among those given to ChildMain.
const slotHandler = "STINT_SLOT_HANDLER"

// childMain is the state of ChildMain in this process.
var childMain childProcesses

type childProcesses struct {
	mu     sync.Mutex
	called bool
	known  []*identity // of the handlers given so far
	slot   *slotProcess
}

// slotProcess is a process that is the slot of a Go handler.
type slotProcess struct {
	number  int
	in, out *os.File // the pipes of the worker
}

// identity distinguishes handlers: copies of a handler share it.
type identity struct{ _ byte }

// give notes the handlers. In a slot's process, once its handler is among them, it returns that
// handler and the slot.
func (c *childProcesses) give(handlers []Handler) (Handler, *slotProcess, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.begin(); err != nil {
		return Handler{}, nil, err
	}
	c.called = true
	before := len(c.known)
	for _, h := range handlers {
		c.known = append(c.known, h.identity)
	}
	if c.slot == nil || c.slot.number >= len(c.known) {
		return Handler{}, nil, nil
	}
	h := handlers[c.slot.number-before]
	return h, c.slot, h.Check(Options{})
}

// begin finds out, once, whether this process is a slot's. If so it takes the standard streams: what
// the program prints must not get into the protocol.
func (c *childProcesses) begin() error {
	text, isSlot := os.LookupEnv(slotHandler)
	if c.called || !isSlot {
		return nil
	}
	_ = os.Unsetenv(slotHandler) // processes that the handler starts are not slots; the name is valid
	number, err := strconv.Atoi(text)
	if err != nil || number < 0 {
		return fmt.Errorf("invalid handler number %q in %s", text, slotHandler)
	}
	in, out, err := child.TakeStandardStreams()
	if err != nil {
		return fmt.Errorf("taking the standard streams: %w", err)
	}
	c.slot = &slotProcess{number, in, out}
	return nil
}

var (
	errNoChildMain = errors.New("Options.Processes: call worker.ChildMain(handler) first thing in main: the slots' processes are this program again and serve the handler there")
	errNotGiven    = errors.New("Options.Processes: this handler is not among those given to worker.ChildMain: give it the same value first thing in main")
	errInSlot      = errors.New("this process is the slot of a worker and cannot make one: call worker.ChildMain with the handler earlier in main")
)

// numberOf returns the number by which a slot's process finds the handler.
func (c *childProcesses) numberOf(h Handler) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.called {
		return 0, errNoChildMain
	}
	number := slices.Index(c.known, h.identity)
	if number < 0 || h.identity == nil {
		return 0, errNotGiven
	}
	return number, nil
}

// check refuses to make a worker in a slot's process: it would do the work of the whole program.
func (c *childProcesses) check() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slot != nil {
		return errInSlot
	}
	return nil
}
