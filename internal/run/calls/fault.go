package calls

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/base/codec"
	"github.com/stint-run/stint/internal/base/jsonscan"
	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/text"
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
	// Final says that the same items would fail again: a call of several is halved at once.
	Final bool
	// After says that the item, or each of the call's items, is to be called again after that time, and has not
	// failed; 0: it has. See [RetryAfterError].
	After time.Duration
}

// Faultf returns a fault of a kind with an error of that type, whose message is formatted.
func Faultf(kind, errorType, format string, args ...any) *Fault {
	return &Fault{Kind: kind, Err: job.Error{Type: errorType, Message: fmt.Sprintf(format, args...)}}
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
		return Faultf(job.KindExpired, "Expired", "%v", expired)
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

// typeName names an error's type as its author would: what its method Type says, as Temporal's application errors do,
// or the first type in the chain that is not just a wrapper of package errors or fmt.
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
	f := Faultf(job.KindLength, "Length",
		"the call was given %s and answered with %s", text.Count(want, "item"), text.Count(got, "result"))
	f.Summed = want > 1 && got == 1
	return f
}

// UnbegunError says that a call was not begun, because the worker lacks something: a descriptor, a process, its
// program. That is no item's fault. The batch gives its items back, which costs no attempt.
type UnbegunError struct{ Err error }

func (e *UnbegunError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnbegunError) Unwrap() error { return e.Err }

// giveBack has the batch end, because calls of it cannot be begun.
func (m *Watch) giveBack(why *UnbegunError) {
	m.unbegun.CompareAndSwap(nil, why)
	m.EndSoon()
}

// Unbegun returns why calls of the batch could not be begun; nil if all could.
func (m *Watch) Unbegun() error {
	if why := m.unbegun.Load(); why != nil {
		return why
	}
	return nil
}

// What is kept of an error, in bytes, whatever handler it is of: it goes into a part, and may go into a
// history. What is longer is cut, and says so.
const (
	MaxErrorType    = 200      // its beginning
	MaxErrorMessage = 64 << 10 // its beginning
	MaxErrorStack   = 64 << 10 // its beginning and its end: some languages put the cause last
)

// leftOutLimit is more than the note about what was left out needs, in bytes.
const leftOutLimit = 64

// Bounded returns the error with all of its texts within their limits. The texts of an error that is
// cut share no memory with the original's.
func Bounded(e job.Error) job.Error {
	return job.Error{
		Type: cut(e.Type, MaxErrorType), Message: cut(e.Message, MaxErrorMessage), Stack: cutMiddle(e.Stack, MaxErrorStack),
	}
}

// bounded returns the fault with its error bounded. It does not change f.
func (f *Fault) bounded() *Fault {
	e := Bounded(f.Err)
	if e == f.Err {
		return f
	}
	b := *f
	b.Err = e
	return &b
}

// cut keeps the beginning of a text, in no more than limit bytes, which are more than a rune's.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return text.Cut(s, limit-len("…"))
}

// cutMiddle keeps the beginning and the end of a text, in no more than limit bytes.
func cutMiddle(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	half := (limit - leftOutLimit) / 2
	begin := strings.TrimSuffix(text.Cut(s, half), "…")
	at := len(s) - half
	for at < len(s) && !utf8.RuneStart(s[at]) {
		at++
	}
	return fmt.Sprintf("%s\n… %d bytes left out …\n%s", begin, at-len(begin), s[at:])
}

// MaxResult is the most bytes that a handler's result for one item may have as JSON: as much as an item's default.
const MaxResult = limits.DefaultMaxItem

// TooLargeFault returns why an item has failed whose result has more than [MaxResult] bytes.
func TooLargeFault(bytes int) *Fault {
	return Faultf(job.KindError, "TooLarge", "the result has %d bytes: the limit is %d", bytes, MaxResult)
}

// CheckResult returns why a value in JSON cannot be a result: it would spoil an output for those who read it. The error
// is its item's.
func CheckResult(value []byte) *Fault {
	if !utf8.Valid(value) {
		at := 0
		for at < len(value) {
			r, size := utf8.DecodeRune(value[at:])
			if r == utf8.RuneError && size == 1 {
				break
			}
			at += size
		}
		return badResult(fmt.Sprintf("is not valid UTF-8 at byte %d", at))
	}
	if jsonscan.TooDeep(value) {
		return badResult(fmt.Sprintf("is nested deeper than %s", text.Thousands(jsonscan.MaxNesting)))
	}
	return nil
}

// CheckEncoded is CheckResult for what enc has written.
func CheckEncoded(value []byte, enc codec.Encoder) *Fault {
	if enc.Clean() {
		return nil
	}
	return CheckResult(value)
}

// NotJSON returns the fault of an item whose result is not JSON.
func NotJSON() *Fault {
	return badResult("is not JSON: a string of it has a control character, for example, or a number is NaN")
}

func badResult(why string) *Fault {
	return &Fault{Kind: job.KindError, Err: job.Error{Type: "InvalidResult", Message: "the result " + why}}
}
