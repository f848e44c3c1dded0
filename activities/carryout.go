package activities

import (
	"context"
	"errors"
	"reflect"
	"time"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/base/stall"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/temporal"
)

// carryOut does the work of an activity that heartbeats for as long as its process lives. The error says to workflows
// what follows.
func carryOut[T any](ctx context.Context, patience time.Duration, work func(context.Context) (T, error)) (T, error) {
	defer beating(ctx)()
	return patiently(ctx, patience, work)
}

// patiently does the work of an activity. It gives the work up if an operation on files takes longer than
// patience: nothing can interrupt that, so it and the work may go on, and a second execution is beside it. The error
// is one that says to workflows what follows.
func patiently[T any](ctx context.Context, patience time.Duration, work func(context.Context) (T, error)) (T, error) {
	meter := stall.NewMeter()
	ctx = stall.With(ctx, meter)
	var result T
	done := trap.Go("doing an activity", func() (err error) {
		result, err = work(ctx)
		return err
	})
	looks := time.NewTicker(max(patience/8, time.Millisecond))
	defer looks.Stop()
	for {
		select {
		case err := <-done:
			return result, sendable(ledger.Raised(err))
		case <-looks.C:
			if stuck := meter.GiveUp(patience); stuck != nil {
				var none T
				return none, sendable(ledger.StoreError(job.ErrorOutput, stuck))
			}
		}
	}
}

// maxSent is the most bytes of an error's text that is sent as it is, with the errors that it wraps, which say most
// of it again.
const maxSent = 16 << 10

// sendable returns an error that an activity can end with: one that was judged says to workflows what follows. A
// failure is not sent if a text in it is not UTF-8: nobody would hear of it before the activity expires. It may quote
// names of files, and what others answer, so long ones are cut.
func sendable(err error) error {
	if judged, ok := errors.AsType[*ledger.Judged](err); ok {
		options := temporal.ApplicationErrorOptions{NonRetryable: judged.NonRetryable(), Cause: judged.Unwrap()}
		err = temporal.NewApplicationErrorWithOptions(judged.Error(), judged.Type(), options)
	}
	switch {
	case err == nil, len(err.Error()) <= maxSent && utf8.ValidString(err.Error()):
		return err
	case errors.Is(err, context.Canceled):
		return context.Canceled
	}
	message, kind := err.Error(), typeOf(err)
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		message, kind = app.Message(), app.Type()
		if app.NonRetryable() {
			return temporal.NewNonRetryableApplicationError(text.Fit(message, maxSent), text.Fit(kind, maxReason), nil)
		}
	}
	return temporal.NewApplicationError(text.Fit(message, maxSent), text.Fit(kind, maxReason))
}

// typeOf returns the name of an error's type, as the SDK has it.
func typeOf(err error) string {
	kind := reflect.TypeOf(err)
	for kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	return kind.Name()
}
