package devserver

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
)

func capture(level slog.Level) (*logger, *bytes.Buffer) {
	var out bytes.Buffer
	return newLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))), &out
}

func TestLoggerKeepsLevelsAndTags(t *testing.T) {
	t.Parallel()
	l, out := capture(slog.LevelDebug)
	l.enter(running)
	with := log.With(l, tag.String("service", "history"))
	with.Debug("a")
	with.Info("b", tag.Int("n", 1))
	with.Warn("c")
	log.With(with, tag.String("x", "y")).Error("d", tag.Error(errors.New("boom")))
	with.DPanic("e")
	require.PanicsWithValue(t, "f", func() { with.Panic("f") })
	require.Equal(t, []string{
		`level=DEBUG msg=a service=history`,
		`level=INFO msg=b service=history n=1`,
		`level=WARN msg=c service=history`,
		`level=ERROR msg=d service=history x=y error=boom`,
		`level=ERROR msg=e service=history`,
		`level=ERROR msg=f service=history`,
	}, strings.Split(strings.TrimSpace(out.String()), "\n"))
}

func TestLoggerWeighsByPhase(t *testing.T) {
	t.Parallel()
	l, out := capture(slog.LevelDebug)
	l.Error("early")
	l.enter(running)
	l.Error("in between")
	l.Error("unable to add metrics baggage to gRPC trailer")
	l.enter(stopping)
	l.Error("late")
	require.Equal(t, []string{
		`level=INFO msg=early`,
		`level=ERROR msg="in between"`,
		`level=DEBUG msg="unable to add metrics baggage to gRPC trailer"`,
		`level=DEBUG msg=late`,
	}, strings.Split(strings.TrimSpace(out.String()), "\n"))
}

func TestFatalEndsNothingButItsGoroutine(t *testing.T) {
	t.Parallel()
	l, _ := capture(slog.LevelError)
	err := guard(l, func() error {
		log.With(l, tag.String("service", "history")).Fatal("no shard", tag.Int("shard", 1))
		return errors.New("not reached")
	})
	require.EqualError(t, err, "no shard shard=1")

	l, _ = capture(slog.LevelError)
	require.NoError(t, guard(l, func() error { return nil }))
	require.EqualError(t, guard(l, func() error { return errors.New("plain") }), "plain")
}
