package execute

import (
	"errors"

	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
)

// IsType reports whether err is an application error of the type.
func IsType(err error, kind string) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.Type() == kind
}

// MaxErrorType and MaxErrorText bound what workflows keep of the type and the message of an error, in bytes as JSON:
// both go on in histories.
const (
	MaxErrorType = 200
	MaxErrorText = 4000
)

// JobError turns the end of an activity into the job's error, within the bounds of its texts.
func JobError(err error) *job.Error {
	kind, message := job.ErrorFailed, err.Error()
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		kind, message = app.Type(), app.Message()
	} else if timeout, ok := errors.AsType[*temporal.TimeoutError](err); ok {
		kind, message = "Timeout", timeoutMessage(timeout)
	}
	return &job.Error{Type: text.Fit(kind, MaxErrorType), Message: text.Fit(message, MaxErrorText)}
}

func timeoutMessage(t *temporal.TimeoutError) string {
	switch t.TimeoutType() {
	case enums.TIMEOUT_TYPE_HEARTBEAT:
		return "its worker died, hung or was cut off: no heartbeat within the expiry"
	case enums.TIMEOUT_TYPE_START_TO_CLOSE:
		return "it took longer than the batch timeout"
	}
	return t.Error()
}

// RanOut reports whether err is a heartbeat timeout, itself or as the cause of another.
func RanOut(err error) bool {
	for err != nil {
		var timeout *temporal.TimeoutError
		if !errors.As(err, &timeout) {
			return false
		}
		if timeout.TimeoutType() == enums.TIMEOUT_TYPE_HEARTBEAT {
			return true
		}
		err = timeout.Unwrap()
	}
	return false
}

func IsTimeout(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout)
}

func IsPermanent(err error) bool {
	for _, kind := range wire.PermanentErrors() {
		if IsType(err, kind) {
			return true
		}
	}
	return false
}
