package execute

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
)

func TestRanOut(t *testing.T) {
	t.Parallel()
	heartbeat := temporal.NewHeartbeatTimeoutError()
	tests := []struct {
		name string
		err  error
		want bool
	}{
		{"nothing", nil, false},
		{"heartbeat", heartbeat, true},
		{"wrapped", fmt.Errorf("activity: %w", heartbeat), true},
		{"as the cause of another timeout", temporal.NewTimeoutError(enums.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE, heartbeat), true},
		{"deep", temporal.NewTimeoutError(enums.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE, temporal.NewTimeoutError(enums.TIMEOUT_TYPE_START_TO_CLOSE, heartbeat)), true},
		{"start to close", temporal.NewTimeoutError(enums.TIMEOUT_TYPE_START_TO_CLOSE, nil), false},
		{"start to close, with another cause", temporal.NewTimeoutError(enums.TIMEOUT_TYPE_START_TO_CLOSE, errors.New("x")), false},
		{"application error", temporal.NewApplicationError("x", "X"), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, RanOut(test.err))
		})
	}
}

// What people read when a batch, or the job, has failed.
func TestJobError(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		err  error
		want job.Error
	}{
		{"application error", temporal.NewApplicationError("no space left", "DiskFull"), job.Error{Type: "DiskFull", Message: "no space left"}},
		{"wrapped", fmt.Errorf("activity error: %w", permanent(job.ErrorBooks)), job.Error{Type: job.ErrorBooks, Message: "this cannot be mended: " + job.ErrorBooks}},
		{"heartbeat", temporal.NewHeartbeatTimeoutError(), job.Error{Type: "Timeout", Message: "its worker died, hung or was cut off: no heartbeat within the expiry"}},
		{"batch timeout", temporal.NewTimeoutError(enums.TIMEOUT_TYPE_START_TO_CLOSE, nil), job.Error{Type: "Timeout", Message: "it took longer than the batch timeout"}},
		{"another", errors.New("x"), job.Error{Type: job.ErrorFailed, Message: "x"}},
		{"long", temporal.NewApplicationError(strings.Repeat("<", 10_000), strings.Repeat("T", 300)), job.Error{
			Type: strings.Repeat("T", MaxErrorType-3) + "…", Message: strings.Repeat("<", (MaxErrorText-3)/6) + "…",
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, *JobError(test.err))
		})
	}
	require.NotEmpty(t, JobError(temporal.NewTimeoutError(enums.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE, nil)).Message)
}

func TestIsPermanent(t *testing.T) {
	t.Parallel()
	for _, kind := range wire.PermanentErrors() {
		require.True(t, IsPermanent(fmt.Errorf("activity: %w", permanent(kind))))
	}
	for _, err := range []error{nil, errors.New("x"), transient("x"), temporal.NewHeartbeatTimeoutError(), permanent(job.ErrorExhausted)} {
		require.False(t, IsPermanent(err))
	}
}

func permanent(kind string) error {
	return temporal.NewNonRetryableApplicationError("this cannot be mended: "+kind, kind, errors.New("cause"))
}

func transient(message string) error { return temporal.NewApplicationError(message, "Transient") }
