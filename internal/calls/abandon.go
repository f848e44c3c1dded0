package calls

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/stint-run/stint/job"
)

// errAbandoned is for a call that was left behind.
var errAbandoned = errors.New("the call was abandoned")

// errGone says that the user's code ended its goroutine instead of returning.
var errGone = errors.New("the handler ended its goroutine (runtime.Goexit) instead of returning")

// make has the handler make the call. User's code in this process cannot be ended: it runs in a
// goroutine of its own, which is left behind if it does not obey its cancellation in time (T18).
func (c *Caller) make(call *Call) error {
	if !c.Handler.Traits().Inside {
		return c.Handler.Call(call)
	}
	r := c.Lane.runner
	if r == nil {
		r = startRunner()
		c.Lane.runner = r
	}
	r.calls <- handed{c.Handler, call}
	for {
		select {
		case err := <-r.returned:
			if errors.Is(err, errGone) {
				c.Lane.runner = nil
			}
			return err
		case late := <-c.Lane.overdue:
			if !call.firm.Load() && c.Lane.scope.End(late.held) {
				c.Lane.endRunner()
				return c.abandon(call, late.cause, stackOf(<-r.named))
			}
		}
	}
}

// runner is the goroutine in which a lane runs user's code.
type runner struct {
	calls    chan handed
	returned chan error
	named    chan []byte // has its name
}

// handed is a call for a handler.
type handed struct {
	to   Handler
	call *Call
}

func startRunner() *runner {
	r := &runner{calls: make(chan handed), returned: make(chan error, 1), named: make(chan []byte, 1)}
	go func() {
		r.named <- goroutineName()
		for c := range r.calls {
			r.run(c)
		}
	}()
	return r
}

// run makes one call. The code may end the goroutine.
func (r *runner) run(c handed) {
	err := errGone
	defer func() {
		if p := recover(); p != nil {
			err = PanicFault(p)
		}
		r.returned <- err
	}()
	err = c.to.Call(c.call)
}

// endRunner ends the lane's goroutine once it has returned from its call. Another one takes the next call.
func (l *Lane) endRunner() {
	if l.runner != nil {
		close(l.runner.calls)
		l.runner = nil
	}
}

// abandon leaves a call behind whose handler does not return. If the item in hand is known
// it alone has failed, and the others' outcomes stay.
func (c *Caller) abandon(call *Call, cause error, stack string) error {
	c.Tainted = true
	c.Answer.leave()
	if c.Answer.Count > call.before {
		c.Place.Answered()
	}
	if !c.Place.Replace(c.Lane.watch.over()) {
		return ErrNoSlot
	}
	call.Keep = c.Handler.Traits().OneByOne
	return &Fault{Kind: job.KindExpired, FirstOnly: call.Keep, Err: job.Error{
		Type: "Abandoned", Stack: stack,
		Message: cause.Error() + ", and the handler did not return when its context was cancelled",
	}}
}

// PanicFault makes a fault of what a handler has panicked with. It must be called by the deferred
// function that recovered it.
func PanicFault(p any) *Fault {
	return &Fault{Kind: job.KindError, Err: job.Error{Type: "panic", Message: fmt.Sprint(p), Stack: string(debug.Stack())}}
}

// goroutineName is how the runtime calls this goroutine: "goroutine 12".
func goroutineName() []byte {
	var buf [64]byte
	header, _, _ := bytes.Cut(buf[:runtime.Stack(buf[:], false)], []byte(" ["))
	return bytes.Clone(header)
}

// maxStacks bounds the text in which a goroutine's stack is looked for, in bytes.
const maxStacks = 8 << 20

// stackOf returns the stack of a goroutine; "" if it cannot be found.
func stackOf(name []byte) string {
	for size := 64 << 10; ; size *= 2 {
		buf := make([]byte, size)
		n := runtime.Stack(buf, true)
		if n == size && size < maxStacks {
			continue
		}
		for _, stack := range bytes.Split(buf[:n], []byte("\n\n")) {
			if bytes.HasPrefix(stack, append(name, " ["...)) {
				return string(stack)
			}
		}
		return ""
	}
}
