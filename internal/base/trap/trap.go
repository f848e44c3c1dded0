// Package trap turns a panic in one of stint's goroutines into an error that says so: a defect must end
// as an error that people can report, not as a dump on their terminal that ends their work.
package trap

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
)

// DefectError reports a panic in stint's own code.
type DefectError struct {
	Where string // what panicked
	Value any    // what it panicked with
	Stack []byte // where that was
}

func (e *DefectError) Error() string {
	return fmt.Sprintf("this is a defect of stint, please report it: %s: panic: %v", e.Where, e.Value)
}

// Run runs fn. If fn panics, Run returns a *DefectError.
func Run(where string, fn func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &DefectError{Where: where, Value: p, Stack: debug.Stack()}
		}
	}()
	fn()
	return nil
}

// Call runs fn and returns its error. If fn panics, Call returns a *DefectError.
func Call(where string, fn func() error) (err error) {
	if defect := Run(where, func() { err = fn() }); defect != nil {
		return defect
	}
	return err
}

// Go runs fn in a goroutine. The channel gets, once, the error of fn, or a *DefectError if fn panics.
func Go(where string, fn func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- Call(where, fn) }()
	return ended
}

// Watched runs fn in a goroutine. If fn panics, failed is called there with a *DefectError.
func Watched(where string, failed func(error), fn func()) {
	go watch(where, failed, fn)
}

// After runs fn in a goroutine after a while, as [time.AfterFunc] does. If fn panics, failed is called there with a
// *DefectError; nil: it is logged.
func After(d time.Duration, where string, failed func(error), fn func()) *time.Timer {
	return time.AfterFunc(d, func() { watch(where, failed, fn) })
}

// OnDone runs fn in a goroutine when the context has ended, as [context.AfterFunc] does. If fn panics, failed is called
// there with a *DefectError; nil: it is logged.
func OnDone(ctx context.Context, where string, failed func(error), fn func()) (stop func() bool) {
	return context.AfterFunc(ctx, func() { watch(where, failed, fn) })
}

func watch(where string, failed func(error), fn func()) {
	err := Run(where, fn)
	switch {
	case err == nil:
	case failed != nil:
		failed(err)
	default:
		slog.Error(err.Error(), "stack", string(err.(*DefectError).Stack))
	}
}
