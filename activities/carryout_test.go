package activities

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"
)

// Whatever is in the texts of an error, it can be sent, it stays short, and it decides what it has decided.
func TestCarryOut_ErrorsCanBeSent(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"\xff", "a", "<", "\x00", "😀"} {
		message := strings.Repeat(unit, 100_000/len(unit))
		for name, err := range map[string]error{
			"plain":     fmt.Errorf("reading: %w", errors.New(message)),
			"permanent": ledger.Permanent(job.ErrorInput, fmt.Errorf("reading: %w", errors.New(message))),
			"outage":    ledger.StoreError(job.ErrorInput, fmt.Errorf("reading: %w", errors.New(message))),
			"store":     fmt.Errorf("reading: %w", &store.OpError{Op: message, Err: errors.New(message)}),
		} {
			_, sent := carryOut(t.Context(), 1<<40, func(context.Context) (int, error) { return 0, err })
			require.Error(t, sent, name)
			data, failed := proto.Marshal(temporal.GetDefaultFailureConverter().ErrorToFailure(sent))
			require.NoError(t, failed, "%s of %q", name, unit)
			require.Less(t, len(data), 64<<10, "%s of %q", name, unit)
			var before, after *temporal.ApplicationError
			require.ErrorAs(t, sent, &after, name)
			if errors.As(err, &before) {
				require.Equal(t, before.Type(), after.Type(), name)
				require.Equal(t, before.NonRetryable(), after.NonRetryable(), name)
			}
		}
	}
	short := errors.New("short")
	_, err := carryOut(t.Context(), 1<<40, func(context.Context) (int, error) { return 0, short })
	require.Equal(t, short, err)
	_, err = carryOut(t.Context(), 1<<40, func(context.Context) (int, error) {
		return 0, fmt.Errorf("%s: %w", strings.Repeat("\xff", 100), context.Canceled)
	})
	require.ErrorIs(t, err, context.Canceled)
}

// What was judged is said once: the error that is sent wraps the cause, and not the judgement as well.
func TestSendable_JudgedError(t *testing.T) {
	t.Parallel()
	cause := errors.New("no space left")
	app, ok := errors.AsType[*temporal.ApplicationError](sendable(fmt.Errorf("writing: %w", ledger.Permanent(job.ErrorOutput, cause))))
	require.True(t, ok)
	require.Equal(t, job.ErrorOutput, app.Type())
	require.True(t, app.NonRetryable())
	require.Equal(t, "no space left", app.Message())
	require.Equal(t, cause, app.Unwrap())
}
