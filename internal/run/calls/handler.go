package calls

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/base/backoff"
	"github.com/stint-run/stint/internal/base/codec"
	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Form is how items reach a handler.
type Form int

const (
	// JSONValues: each item is one JSON value; jsonl items come unchecked, so that a handler that
	// parses them anyway does it once.
	JSONValues Form = iota
	// CheckedJSON: the same, but what is not JSON is kept back as an invalid item.
	CheckedJSON
	// Lines: each item is a line of bytes without its end.
	Lines
)

// CallSize bounds a call: as many items as fit both.
type CallSize struct {
	Items int
	Bytes int
}

// Handler is the user's code, as Process sees it. One value serves all slots of a worker at once.
type Handler interface {
	Traits() Traits
	CallSize() CallSize
	// Call hands the items to the user's code and adds their outcomes to c.Answer in order, or has items called
	// again (see [Call.Postpone]). An error means that the call failed as a whole: nothing that it added counts,
	// unless it has set c.Keep. Only when c.Ending() is true, or the call has asked to slow down, may it add
	// fewer outcomes than there are items.
	Call(c *Call) error
}

// Traits are what Process needs to know of a handler.
type Traits struct {
	Form Form
	// Inside says that the user's code runs in this process, where nothing can end it. A call that
	// outlasts its cancellation is then abandoned: what it does later counts for nothing.
	Inside bool
	// Lists says that results are slices of Go: one that is nil is encoded as null, and means an empty list.
	Lists bool
	// Requests says that the handler makes requests, and waits for the turn of each (see [Call.Take]). Of any other handler
	// a call is a request.
	Requests bool
	// OneByOne says that the handler takes one item after the other, each with c.Begin and c.Claim:
	// the first one without an outcome is the one in hand.
	OneByOne bool
}

// Item is one item of a call. Data is valid during the call only.
type Item struct {
	Ordinal int64
	Data    []byte

	At int // of Data in the caller's block, if there is one
	// Outcome, if it is set, is the item's before any call: no handler gets it. Calls have only items without one: see
	// [Answer.Fill].
	Outcome *records.Outcome
}

// Call is what a handler gets at once.
type Call struct {
	Items  []Item
	Answer *Answer
	// ItemAttempts and Backoff say how often, and after which wait, an item is tried whose
	// error is its own.
	ItemAttempts int
	Backoff      time.Duration
	// Attempts says how often an item is tried whose timer expires: as often as a call that fails as a
	// whole, which is what it would be in its own process.
	Attempts int
	// Place is where the call runs.
	Place Place
	// Job, Run and Stage say what the items belong to: a run of a job ([wire.Ref]), and in a pipeline a stage.
	Job, Run, Stage string
	// RootRun is the first of the runs that Run continues, or Run: the items have the same ordinals in all of them.
	RootRun string
	// Records says that the items are records of CSV: objects of strings.
	Records bool
	// Text says that the items are lines of text, not JSON; Flat that the result of an item may be any number of lines.
	Text, Flat bool
	// Isolating says that the call is one of those that narrow a fault down.
	Isolating bool
	// Keep, set by the handler, has the outcomes that it has added count although the call fails.
	Keep bool

	trials *Trials // nil: nobody counts tries here
	rules  *Rules
	spread float64 // see [Call.Spread]; 0: 1
	brake  *Brake
	now    time.Time // of all waits that the call asks for: items with the same one are called together; zero: it has not
	lane   *Lane
	gate   *gate  // of its results as JSON; nil: none yet
	held   uint64 // of the lane's scope
	before int    // items with an outcome when the call began
	gone   bool   // it has been left behind: nobody waits for it

	span     CallSpan      // nil: it has none
	waited   time.Duration // for its turn, which is no part of the call
	expiries int64         // of timers of items that were retried
	firm     *atomic.Bool
	block    []byte
	stream   Stream // the items, of a call that takes a whole batch; nil: Items are
}

// lines returns the items as lines, each ended by '\n'. If they do not lie in memory so, it puts
// them together in scratch.
func (c *Call) lines(scratch *[]byte) []byte {
	if c.block != nil && len(c.Items) > 0 {
		last := c.Items[len(c.Items)-1]
		return c.block[c.Items[0].At : last.At+len(last.Data)+1]
	}
	*scratch = (*scratch)[:0]
	for i := range c.Items {
		*scratch = append(append(*scratch, c.Items[i].Data...), '\n')
	}
	return *scratch
}

// Begin starts the timer of the call, or of an item if a handler takes the items one by one,
// anew, and returns the context for it: cancelled when the timer expires (its cause is then a
// *timers.ExpiredError) and when the worker must end at once.
func (c *Call) Begin() context.Context {
	ctx, held := c.lane.begin()
	c.held = held
	return c.withSpan(ctx)
}

// End releases the timer, if the call holds it still.
func (c *Call) End() { c.lane.scope.End(c.held) }

// Doubt returns a function that says that a timer of what Begin has begun is overdue: the worker does not
// heartbeat for the batch until that has ended. Any goroutine may call it.
func (c *Call) Doubt() func() {
	lane, held := c.lane, c.held
	return func() { lane.doubted.Store(held) }
}

// Claim ends what Begin has begun. A handler whose Traits are Inside calls it when the user's code
// has returned, before it adds an outcome; false says that the call was abandoned meanwhile: it
// must then return at once and touch nothing.
func (c *Call) Claim() bool {
	if !c.lane.scope.End(c.held) {
		c.gone = true
	}
	return !c.gone
}

// Encode claims the call and adds a result as JSON, encoded by the codec. With an error, other than that the call was
// abandoned, it has done neither.
func (c *Call) Encode(v any, as codec.Codec) error {
	if c.gate == nil {
		c.gate = &gate{call: c}
	}
	if err := c.gate.encode(v, as); err != nil {
		return fmt.Errorf("encoding the result: %w", err)
	}
	return nil
}

// Noticed is closed when the batch should end because the job or the worker does, and it is known why and by when. That
// may be some time after Soon is closed: the server is asked.
func (c *Call) Noticed() <-chan struct{} { return c.lane.watch.stopping }

// StopNotice returns why that is, and by when it must have ended. Only once Noticed is closed.
func (c *Call) StopNotice() wire.StopNotice { return c.lane.watch.notice }

// Soon is closed when the batch should end, for whatever reason.
func (c *Call) Soon() <-chan struct{} { return c.lane.watch.Soon }

// Ending reports that the batch should end: the handler should finish the item in hand only.
func (c *Call) Ending() bool { return c.lane.watch.Ending.Load() || c.lane.watch.slowed.Load() > 0 }

// Ended reports that the call was cut off: the worker must end at once.
func (c *Call) Ended() bool { return c.lane.watch.over() }

// Forced notes that a process of the call was ended by the signal, because of cause. It counts if that is the
// end of a stop's grace. Any goroutine may call it.
func (c *Call) Forced(pid int, signal syscall.Signal, cause error) {
	if !errors.Is(cause, ErrEnded) || Drained(cause) {
		return
	}
	name := "TERM"
	if signal == syscall.SIGKILL {
		name = "KILL"
	}
	place, watch := c.Place.Describe(), c.lane.watch
	watch.mu.Lock()
	defer watch.mu.Unlock()
	watch.forced = append(watch.forced, job.ForcedEnd{Worker: place.Worker, Slot: place.Slot, PID: pid, Signal: name})
}

// TriesOf returns how often an item is tried before it fails with the fault, unless a rule says otherwise.
func (c *Call) TriesOf(f *Fault) int {
	switch f.Kind {
	case job.KindInvalid:
		return 1
	case job.KindExpired:
		return max(c.Attempts, c.ItemAttempts)
	}
	return c.ItemAttempts
}

// Expired counts an expired timer of an item that is retried.
func (c *Call) Expired() { c.expiries++ }

// Wait sleeps before a repetition, tries having been made; false when the batch should end instead.
func (c *Call) Wait(tries int) bool { return c.lane.wait(retryDelay(c.Backoff, tries)) }

// retryDelay returns the wait before another call after so many tries.
func retryDelay(first time.Duration, tries int) time.Duration {
	return backoff.Delay(first, tries, limits.MaxBackoff)
}

// Conversion gives items the form that a handler wants.
type Conversion struct {
	Form  Form
	Shape *wire.Shape // of the items
	data  []byte      // of items that had to be converted, since reset
}

func (c *Conversion) Reset() { c.data = c.data[:0] }

// AsLines reports whether the items' own lines are what the handler wants.
func (c *Conversion) AsLines() bool { return c.Form == Lines && records.Lines(c.Shape) }

// Convert returns an item in the form that the handler wants. It is valid until reset.
func (c *Conversion) Convert(item *records.Item) ([]byte, error) {
	if item.Err != nil {
		return nil, item.Err
	}
	shape, form := c.Shape, c.Form
	switch {
	case form == CheckedJSON && records.JSONLines(shape):
		return item.Raw, records.CheckLine(shape, item)
	case form == JSONValues && records.JSONLines(shape) && utf8.Valid(item.Raw):
		return item.Raw, records.CheckNesting(item.Raw) // the handler's own decoder checks the rest
	case form == Lines && records.Lines(shape):
		return item.Raw, records.CheckLine(shape, item)
	}
	start := len(c.data)
	var err error
	if form == Lines {
		c.data, err = records.AppendLine(shape, c.data, item)
	} else {
		c.data, err = records.AppendJSON(shape, c.data, item)
	}
	if err != nil {
		c.data = c.data[:start]
		return nil, err
	}
	return c.data[start:len(c.data):len(c.data)], nil
}

// InvalidFault returns the fault of an item that is not in its format.
func InvalidFault(err error) *Fault {
	return Faultf(job.KindInvalid, "Invalid", "%v", err)
}

// Observer gets what the executions of Process do, by many goroutines at once. Its methods must
// be quick.
type Observer interface {
	// BatchBegan and BatchEnded are called for each execution, once it has its slot; err is why it
	// failed, nil if it has not.
	BatchBegan(job string)
	BatchEnded(job string, err error)
	// CallBegan and CallEnded are called for each call of the handler.
	CallBegan(job string)
	CallEnded(CallStats)
	// Recorded gets outcomes once they are in the part, call by call, and of what they took.
	Recorded(RecordStats)
}

// CallStats are about one call.
type CallStats struct {
	Job   string
	Stage string // of a pipeline; empty: it has none
	Items int    // with an outcome
	Took  time.Duration
	Fault string // one of job.Kind…, if the call failed as a whole
	// Cut says that it came to its end before its last item because the batch had to end, or that all its items are
	// called again.
	Cut bool
	// Failed are those of the items that have failed; SlowDown says that the handler has asked to slow down, and
	// that the job does: see [Brake].
	Failed   int
	SlowDown bool
	// Refused says that the handler has asked to slow down, whether or not the job does.
	Refused bool
}

// RecordStats are about outcomes; all numbers are as in job.Totals.
type RecordStats struct {
	Job                           string
	OK, Failed, Dropped           int64
	Retries, Expiries, Isolations int64
}

// Sampler tries a sample of a job's items with a worker, which runs them as a small job.
type Sampler interface {
	// Open returns what is called in place of the worker's handler, and what observes the calls in place of its
	// observer.
	Open(Handler, Observer) (Handler, Observer)
	// Ready is called once the handler can be called: the worker has started it in so long.
	Ready(time.Duration)
}

// Unobserved is for workers that nobody observes.
type Unobserved struct{}

func (Unobserved) BatchBegan(string)        {}
func (Unobserved) BatchEnded(string, error) {}
func (Unobserved) CallBegan(string)         {}
func (Unobserved) CallEnded(CallStats)      {}
func (Unobserved) Recorded(RecordStats)     {}
