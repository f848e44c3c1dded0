package ledger

import (
	"context"
	"errors"

	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/temporal"
)

// Permanent returns an application error of that kind, one of job.Error…, which the server does not
// retry.
func Permanent(kind string, err error) error {
	return temporal.NewNonRetryableApplicationError(err.Error(), kind, err)
}

// StoreError makes an error of the store, or of the host of an input, one that activities return. If
// retrying cannot help, it is permanent and of that kind; otherwise it is an outage, which costs nothing but time. A cancellation
// stays what it is. It returns nil for nil.
func StoreError(kind string, err error) error {
	if decided, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return decided // however deep: workflows see what is at the top
	}
	var fenced *store.FencedError
	var corrupt *store.CorruptError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &fenced):
		return Permanent(job.ErrorFenced, err)
	case errors.As(err, &corrupt):
		return Permanent(job.ErrorCorrupt, err)
	case store.Permanent(err):
		return Permanent(kind, err)
	case errors.Is(err, context.Canceled):
		return err
	}
	return temporal.NewApplicationErrorWithCause(err.Error(), job.ErrorOutage, err)
}

// Plain returns for people an error that was made for workflows: what it says, once, without its type.
func Plain(err error) error {
	var app *temporal.ApplicationError
	if !errors.As(err, &app) {
		return err
	}
	return &plainError{app}
}

type plainError struct{ app *temporal.ApplicationError }

func (e *plainError) Error() string { return e.app.Message() }

func (e *plainError) Unwrap() error { return e.app }

// Raised returns what an activity returns for err: the error that decides what follows, however deep it lies,
// and for an error of the store that nobody has judged yet, what StoreError makes of it.
func Raised(err error) error {
	var decided *temporal.ApplicationError
	var op *store.OpError
	if errors.As(err, &decided) || errors.As(err, &op) {
		return StoreError(job.ErrorOutput, err)
	}
	return err
}
