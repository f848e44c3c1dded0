package calls

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// errAbandoned is for a call that was left behind.
var errAbandoned = errors.New("the call was abandoned")

// errGone says that the user's code ended its goroutine instead of returning.
var errGone = errors.New("the handler ended its goroutine (runtime.Goexit) instead of returning")

// attempt is one call of a [Caller], with what is needed to conclude it in another goroutine.
type attempt struct {
	Call
	of    *Caller
	items []Item
	mark  mark // of the answer before
	began time.Time
	free  atomic.Bool // Call.firm
	late  atomic.Bool // it has returned after it was left behind
	err   error       // what it came to
}

// here makes the attempt in the lane's own goroutine. It returns false if the lane has another one now: the
// handler did not return in time, or has ended the goroutine. The caller must then return and touch nothing.
func (c *Caller) here(a *attempt) (kept bool) {
	c.Lane.mu.Lock()
	c.Lane.lent = a
	c.Lane.mu.Unlock()
	err, returned := errGone, false
	defer func() {
		if p := recover(); p != nil {
			err, returned = PanicFault(p), true
		}
		if !c.Lane.back(a) {
			a.late.Store(true)
			return
		}
		a.err = err
		if kept = returned; !returned {
			c.CarryOn(func() error { return c.run(a.items, a) })
		}
	}()
	err = c.Handler.Call(&a.Call)
	returned = true
	return
}

// back notes that the handler has returned the lane's goroutine. It returns false if that was too late.
func (l *Lane) back(a *attempt) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lent != a {
		return false
	}
	l.lent = nil
	return true
}

// leave leaves the call of that holding behind, in the goroutine that it keeps. It returns false if there is no
// such call, or it has just returned.
func (l *Lane) leave(held uint64, cause error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.lent
	if a == nil || a.firm.Load() || !l.scope.End(held) {
		return false
	}
	l.lent = nil
	c := a.of
	name := l.in.name
	c.CarryOn(func() error {
		a.err = c.abandon(&a.Call, cause, stackOf(name), &a.late)
		return c.run(a.items, a)
	})
	return true
}

// apart has the handler make the call, in a goroutine of its own if it is user's code in this process: that cannot be
// ended, and is left behind if it does not obey its cancellation in time (T18).
func (c *Caller) apart(call *Call) error {
	if !c.Handler.Traits().Inside {
		return c.Handler.Call(call)
	}
	returned, named := make(chan error, 1), make(chan []byte, 1)
	var over atomic.Bool
	go func() {
		named <- goroutineName()
		err := errGone
		defer func() {
			if p := recover(); p != nil {
				err = PanicFault(p)
			}
			over.Store(true)
			returned <- err
		}()
		err = c.Handler.Call(call)
	}()
	for {
		select {
		case err := <-returned:
			return err
		case late := <-c.Lane.overdue:
			if !call.firm.Load() && c.Lane.scope.End(late.held) {
				return c.abandon(call, late.cause, stackOf(<-named), &over)
			}
		}
	}
}

// abandon leaves a call behind whose handler does not return. If the item in hand is known it alone has failed, and the
// others' outcomes stay. returned becomes true when it does.
func (c *Caller) abandon(call *Call, cause error, stack string, returned *atomic.Bool) error {
	c.Tainted = true
	if left := c.Lane.watch.limits.Left; left != nil {
		left(LeftCall{c.Place.Describe(), returned})
	}
	c.Answer.leave()
	if c.Answer.Count > call.before {
		c.Place.Answered()
	}
	if !c.Place.Replace(c.Lane.watch.over()) {
		return ErrNoSlot
	}
	call.Keep = c.Handler.Traits().OneByOne
	f := Faultf(job.KindExpired, "Abandoned", "%v, and the handler did not return when its context was cancelled", cause)
	f.FirstOnly, f.Err.Stack = call.Keep, stack
	return f
}

// PanicFault makes a fault of what a handler has panicked with. It must be called by the deferred
// function that recovered it.
func PanicFault(p any) *Fault {
	return &Fault{Kind: job.KindError, Err: job.Error{Type: "panic", Message: fmt.Sprint(p), Stack: string(debug.Stack())}}
}

// goroutineName returns how the runtime calls this goroutine: "goroutine 12".
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
		for stack := range bytes.SplitSeq(buf[:n], []byte("\n\n")) {
			if bytes.HasPrefix(stack, append(name, " ["...)) {
				return string(stack)
			}
		}
		return ""
	}
}

// LeftCall is a call of user's code in this process that has ignored its cancelled context and was left behind. Nothing
// can end it.
type LeftCall struct {
	Place wire.SlotRef // where it was made

	returned *atomic.Bool
}

// Returned reports whether it has returned meanwhile. Any goroutine may call it.
func (l LeftCall) Returned() bool { return l.returned.Load() }
