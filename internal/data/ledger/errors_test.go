package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

func TestStoreError(t *testing.T) {
	t.Parallel()
	require.NoError(t, StoreError(job.ErrorOutput, nil))
	jobtest.RequireType(t, StoreError(job.ErrorInput, fmt.Errorf("x: %w", fs.ErrNotExist)), job.ErrorInput)
	require.Equal(t, context.Canceled, StoreError(job.ErrorOutput, context.Canceled))
}

// A fault of the store, or of an input's host, is nobody's: what may pass is an outage, and no attempt.
func TestStoreError_Outage(t *testing.T) {
	t.Parallel()
	passing := fmt.Errorf("reading: %w", &store.OpError{Op: "reading", Where: "s3://b/k", Err: errors.New("connection reset")})
	err := StoreError(job.ErrorOutput, passing)
	require.ErrorIs(t, err, passing)
	for _, err := range []error{err, Raised(passing), Raised(fmt.Errorf("x: %w", err))} {
		var app *Judged
		require.ErrorAs(t, err, &app)
		require.Equal(t, job.ErrorOutage, app.Type())
		require.False(t, app.NonRetryable())
	}
}

// People read what went wrong, and read it once.
func TestPlain(t *testing.T) {
	t.Parallel()
	require.NoError(t, Plain(nil))
	err := Plain(fmt.Errorf("x: %w", StoreError(job.ErrorInput, fmt.Errorf("reading a: %w", fs.ErrNotExist))))
	require.EqualError(t, err, "reading a: file does not exist")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// What decides stands at the top of what an activity returns: deeper down no workflow sees it.
func TestRaised(t *testing.T) {
	t.Parallel()
	require.NoError(t, Raised(nil))
	other := errors.New("not of the store")
	require.Equal(t, other, Raised(other))
	for _, kind := range []string{job.ErrorOutput, job.ErrorOutage} {
		deep := &Judged{kind: kind, cause: errors.New("full")}
		require.Equal(t, deep, Raised(errors.Join(nil, fmt.Errorf("committing: %w", deep))))
	}
	jobtest.RequireType(t, Raised(fmt.Errorf("x: %w", &store.OpError{Err: fs.ErrPermission})), job.ErrorOutput)
}
