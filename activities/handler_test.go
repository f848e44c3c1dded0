package activities

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/timers"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
)

type outOfRange struct{}

func (outOfRange) Error() string { return "out of range" }

// B7: an item's error keeps its type name and message.
func TestFaultOf(t *testing.T) {
	t.Parallel()
	crash := &calls.Fault{Kind: job.KindCrash, Err: job.Error{Type: "Crash", Message: "killed"}}
	tests := []struct {
		name string
		err  error
		want calls.Fault
	}{
		{"a fault", crash, *crash},
		{"a wrapped fault", fmt.Errorf("calling: %w", crash), *crash},
		{"expired", &timers.ExpiredError{Scope: "the call", After: time.Second}, calls.Fault{Kind: job.KindExpired, Err: job.Error{Type: "Expired", Message: "the call took longer than 1s"}}},
		{"plain", errors.New("no"), calls.Fault{Kind: job.KindError, Err: job.Error{Type: "error", Message: "no"}}},
		{"plain, wrapped", fmt.Errorf("a: %w", errors.New("no")), calls.Fault{Kind: job.KindError, Err: job.Error{Type: "error", Message: "a: no"}}},
		{"typed", outOfRange{}, calls.Fault{Kind: job.KindError, Err: job.Error{Type: "outOfRange", Message: "out of range"}}},
		{"typed, by pointer", &outOfRange{}, calls.Fault{Kind: job.KindError, Err: job.Error{Type: "outOfRange", Message: "out of range"}}},
		{"typed, wrapped", fmt.Errorf("a: %w", outOfRange{}), calls.Fault{Kind: job.KindError, Err: job.Error{Type: "outOfRange", Message: "a: out of range"}}},
		{"of the standard library", &fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}, calls.Fault{Kind: job.KindError, Err: job.Error{Type: "PathError", Message: "open x: file does not exist"}}},
		{"of Temporal", temporal.NewApplicationError("no", "OutOfRange"), calls.Fault{Kind: job.KindError, Err: job.Error{Type: "OutOfRange", Message: "no (type: OutOfRange, retryable: true)"}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, *calls.FaultOf(test.err))
		})
	}
}

func TestFault_Error(t *testing.T) {
	t.Parallel()
	require.EqualError(t, calls.LengthFault(3, 1), "length: the call was given 3 items and answered with 1 result")
}

func TestCauseOf(t *testing.T) {
	t.Parallel()
	err := errors.New("the handler's")
	require.Equal(t, err, calls.CauseOf(t.Context(), err))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(calls.ErrEnded)
	require.Equal(t, calls.ErrEnded, calls.CauseOf(ctx, err), "why the call was cut off, not what it made of that")
}
