package calls

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/stint-run/stint/internal/limits"
	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/timers"
)

// Fault is why an item, or a whole call, failed.
type Fault struct {
	Kind string // one of job.Kind…
	Err  job.Error
	// Collateral says that another call's fault ended the process that they shared: this one is
	// repeated without counting as tried.
	Collateral bool
	// Counted says that another call counts what has happened.
	Counted bool
	// FirstOnly says that the first item without an outcome is to blame, and it alone.
	FirstOnly bool
	// Summed says that the call had several items and was answered with one result.
	Summed bool
	// Full says that the items without an outcome have not failed: there was no room for theirs. They
	// are called again, fewer at once. A call of one item is never full.
	Full bool
	// After says that the item, or each of the call's items, is to be called again after that time, and has not
	// failed; 0: it has. See [RetryAfterError].
	After time.Duration
}

func (f *Fault) Error() string {
	switch kind := limits.FailureKindOf(f.Kind); {
	case kind.Said:
		return f.Err.Message // which begins with the status
	case !kind.Typed:
		return f.Kind + ": " + f.Err.Message // its type says no more
	}
	return f.Kind + ": " + f.Err.Error()
}

// FaultOf turns an error of a handler into a fault, whose error is bounded (see [Bounded]).
func FaultOf(err error) *Fault {
	if fault, ok := errors.AsType[*Fault](err); ok {
		return fault.bounded()
	}
	if later, ok := errors.AsType[*RetryAfterError](err); ok {
		return later.fault()
	}
	if expired, ok := errors.AsType[*timers.ExpiredError](err); ok {
		return &Fault{Kind: job.KindExpired, Err: job.Error{Type: "Expired", Message: expired.Error()}}
	}
	e := job.Error{Type: typeName(err), Message: err.Error()}
	if given, ok := errors.AsType[*job.Error](err); ok {
		if err == error(given) {
			e.Message = given.Message
		}
		e.Type, e.Stack = cmp.Or(given.Type, e.Type), given.Stack
	}
	return (&Fault{Kind: job.KindError, Err: e}).bounded()
}

// typeName names an error's type as its author would: what its method Type says, as Temporal's application errors do, or the
// first type in the chain that is not just a wrapper of package errors or fmt.
func typeName(err error) string {
	var typed interface {
		error
		Type() string
	}
	if errors.As(err, &typed) && typed.Type() != "" {
		return typed.Type()
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		t := reflect.TypeOf(e)
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.PkgPath() != "errors" && t.PkgPath() != "fmt" && t.Name() != "" {
			return t.Name()
		}
	}
	return "error"
}

// LengthFault says that a call had the wrong number of results.
func LengthFault(want, got int) *Fault {
	return &Fault{Kind: job.KindLength, Summed: want > 1 && got == 1, Err: job.Error{
		Type: "Length", Message: fmt.Sprintf("the call was given %s and answered with %s", text.Count(want, "item"), text.Count(got, "result")),
	}}
}

// UnbegunError says that a call was not begun, because the worker lacks something: a descriptor, a process, its program.
// That is no item's fault. The batch gives its items back, which costs no attempt.
type UnbegunError struct{ Err error }

func (e *UnbegunError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnbegunError) Unwrap() error { return e.Err }

// giveBack has the batch end, because calls of it cannot be begun.
func (m *Watch) giveBack(why *UnbegunError) {
	m.unbegun.CompareAndSwap(nil, why)
	m.end()
}

// Unbegun returns why calls of the batch could not be begun; nil if all could.
func (m *Watch) Unbegun() error {
	if why := m.unbegun.Load(); why != nil {
		return why
	}
	return nil
}
