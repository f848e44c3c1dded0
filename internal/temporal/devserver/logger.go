//go:build !noserver

package devserver

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"

	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
)

// phase is where a server is in its life, which decides how serious its log entries are. While the parts of a server
// come and go, they complain about each other's absence: only the error that Start returns matters.
type phase int32

const (
	starting phase = iota // warnings and errors count as information
	running
	stopping // everything counts as debugging
)

// benign are messages at error level about nothing that needs attention.
var benign = map[string]bool{
	// A caller has hung up before its answer.
	"unable to add metrics baggage to gRPC trailer": true,
}

// logger hands the server's log entries to slog. The SDK workers inside the server log through it too.
//
// An embedded server must not end the process, so Fatal ends the goroutine that calls it, and what it said is kept for
// Start to return.
type logger struct {
	to    *slog.Logger
	tags  []tag.Tag
	state *logState
}

// logState is shared by a logger and all that are derived from it.
type logState struct {
	phase atomic.Int32
	fatal atomic.Pointer[string]
}

var (
	_ log.Logger     = (*logger)(nil)
	_ log.WithLogger = (*logger)(nil)
)

func newLogger(to *slog.Logger) *logger { return &logger{to: to, state: &logState{}} }

func (l *logger) enter(p phase) { l.state.phase.Store(int32(p)) }

// fatal returns what the first call of Fatal said, or "".
func (l *logger) fatal() string {
	if p := l.state.fatal.Load(); p != nil {
		return *p
	}
	return ""
}

// With implements log.WithLogger.
func (l *logger) With(tags ...tag.Tag) log.Logger {
	all := make([]tag.Tag, 0, len(l.tags)+len(tags))
	all = append(append(all, l.tags...), tags...)
	return &logger{to: l.to, tags: all, state: l.state}
}

// Debug implements log.Logger.
func (l *logger) Debug(msg string, tags ...tag.Tag) { l.log(slog.LevelDebug, msg, tags) }

// Info implements log.Logger.
func (l *logger) Info(msg string, tags ...tag.Tag) { l.log(slog.LevelInfo, msg, tags) }

// Warn implements log.Logger.
func (l *logger) Warn(msg string, tags ...tag.Tag) { l.log(slog.LevelWarn, msg, tags) }

// Error implements log.Logger.
func (l *logger) Error(msg string, tags ...tag.Tag) { l.log(slog.LevelError, msg, tags) }

// DPanic implements log.Logger; it does not panic.
func (l *logger) DPanic(msg string, tags ...tag.Tag) { l.log(slog.LevelError, msg, tags) }

// Panic implements log.Logger.
func (l *logger) Panic(msg string, tags ...tag.Tag) {
	l.log(slog.LevelError, msg, tags)
	panic(msg)
}

// Fatal implements log.Logger. It ends the calling goroutine.
func (l *logger) Fatal(msg string, tags ...tag.Tag) {
	text := msg
	for _, t := range tags {
		text += fmt.Sprintf(" %s=%v", t.Key(), t.Value())
	}
	l.state.fatal.CompareAndSwap(nil, &text)
	l.log(slog.LevelError, msg, tags)
	runtime.Goexit()
}

func (l *logger) log(level slog.Level, msg string, tags []tag.Tag) {
	ctx := context.Background()
	level = l.worth(level, msg)
	if !l.to.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, len(l.tags)+len(tags))
	for _, from := range [][]tag.Tag{l.tags, tags} {
		for _, t := range from {
			attrs = append(attrs, slog.Any(t.Key(), t.Value()))
		}
	}
	l.to.LogAttrs(ctx, level, msg, attrs...)
}

func (l *logger) worth(level slog.Level, msg string) slog.Level {
	switch p := phase(l.state.phase.Load()); {
	case p == stopping, benign[msg]:
		return min(level, slog.LevelDebug)
	case p == starting:
		return min(level, slog.LevelInfo)
	default:
		return level
	}
}
