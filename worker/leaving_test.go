package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/internal/temporal/entry"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
)

// A worker whose server does not answer ends once nothing is in hand, or that has had its time; one whose server
// answers waits for it.
func TestLeaving_BeforeASilentServer(t *testing.T) {
	t.Parallel()
	frozen := errors.New("frozen")
	const drain, polls = 30 * time.Second, time.Minute
	for name, c := range map[string]struct {
		silentFrom, busyFor time.Duration
		least, most         time.Duration
		want                error
	}{
		"idle":                  {0, 0, 0, 10 * time.Second, frozen},
		"busy for a while":      {0, 12 * time.Second, 12 * time.Second, 22 * time.Second, frozen},
		"busy for ever":         {0, time.Hour, drain, drain + 10*time.Second, frozen},
		"silent later":          {20 * time.Second, 0, 20 * time.Second, 30 * time.Second, frozen},
		"silent once":           {-1, 0, polls, polls, nil},
		"a server that answers": {time.Hour, time.Hour, polls, polls, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begun, asked := time.Now(), 0
				err := leaving{
					stop: func() { time.Sleep(polls) },
					silent: func(ctx context.Context) error {
						if asked++; time.Since(begun) < c.silentFrom || c.silentFrom < 0 && asked%2 == 0 {
							return nil
						}
						select {
						case <-time.After(linkLimit):
							return frozen
						case <-ctx.Done():
							return ctx.Err()
						}
					},
					busy: func() bool { return time.Since(begun) < c.busyFor },
					most: drain,
				}.run()
				require.Equal(t, c.want, err)
				require.GreaterOrEqual(t, time.Since(begun), c.least)
				require.LessOrEqual(t, time.Since(begun), c.most)
				time.Sleep(polls) // what still waits ends some time
			})
		})
	}
}

// An activity is in hand while it runs, and for as long as its report may be under way.
func TestTasksInHand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tasks tasksInHand
		require.False(t, tasks.busy())
		var within atomic.Bool
		all := tasks.counted(entry.Activities{"Plan": func(context.Context, converter.EncodedValues) (any, error) {
			within.Store(tasks.busy())
			return 7, nil
		}})
		got, err := all["Plan"](t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, 7, got)
		require.True(t, within.Load())
		require.True(t, tasks.busy())
		time.Sleep(reportLimit)
		require.False(t, tasks.busy())
	})
}
