package worker

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
)

func TestD52_AWorkerThatIsCutOffSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		log := &logBuffer{}
		l := &link{log: slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), log), nil)), ask: func(context.Context) error {
			if away.Load() {
				return serviceerror.NewUnavailable("connection refused")
			}
			return nil
		}}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			l.watch(ctx)
		}()
		time.Sleep(time.Minute) // of the bubble's clock
		_, why := l.cutOff()
		require.NoError(t, why)

		away.Store(true)
		time.Sleep(8 * time.Second)
		_, why = l.cutOff()
		require.ErrorContains(t, why, "connection refused")
		time.Sleep(27 * time.Second)
		require.Equal(t, 1, strings.Count(log.String(), "cut off from Temporal"), "once")

		away.Store(false)
		time.Sleep(4 * time.Second)
		_, why = l.cutOff()
		require.NoError(t, why)
		require.Equal(t, 1, strings.Count(log.String(), "Temporal answers again"))
		require.Equal(t, 2, strings.Count(log.String(), "\n"))
		stop()
		<-ended
	})
}

func TestD52_HealthSaysWhetherTemporalAnswers(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.serve(Each(func(_ context.Context, s string) (string, error) { return s, nil }))
	require.True(t, f.metrics.health(time.Now()).Connected)
	f.metrics.link = &link{why: errors.New("connection refused"), since: time.Unix(0, 0)}
	h := f.metrics.health(time.Now())
	require.False(t, h.Connected)
	require.False(t, h.Healthy)
	require.Contains(t, h.Why, "cut off from Temporal since 1970-01-01 00:00:00: connection refused")
}

// Whatever a server answers, it is there.
func TestD52_AnyAnswerIsASignOfLife(t *testing.T) {
	t.Parallel()
	for err, away := range map[error]bool{
		nil: false, serviceerror.NewUnimplemented("x"): false, serviceerror.NewPermissionDenied("x", ""): false,
		serviceerror.NewUnavailable("x"): true, context.DeadlineExceeded: true, serviceerror.NewDeadlineExceeded("x"): true,
	} {
		l := &link{ask: func(context.Context) error { return err }}
		require.Equal(t, away, l.once(t.Context()) != nil, "%v", err)
	}
}
