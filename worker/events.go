package worker

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/stint-run/stint/timers"
)

// SlotEvent is something that has happened to a slot.
type SlotEvent struct {
	Kind        SlotEventKind
	Slot        int
	PID         int           // of the process that the event is about; with SlotReplaced the old one
	Incarnation int           // with SlotReplaced the next one
	Err         error         // why
	Wait        time.Duration // with SlotReplaced, how long the next process waits before it starts
	Free        bool          // the replacement does not count as a restart: stint itself has ended the process, or a fault was being narrowed down
}

// SlotEventKind is the kind of a [SlotEvent].
type SlotEventKind int

// The events of a slot.
const (
	SlotReady    SlotEventKind = iota // its process can be called
	SlotReplaced                      // its process has ended, and is replaced
	SlotOut                           // it has been replaced too often in a row
	TimerExpired                      // a timer of its process has expired
	CallLeft                          // a Go handler's call did not return, and was left behind
)

var kindNames = [...]string{"ready", "replaced", "out", "timer expired", "call left behind"}

// String returns the kind in words.
func (k SlotEventKind) String() string { return kindNames[k] }

// logEvents writes events to a log, and passes them on.
func logEvents(log *slog.Logger, next func(SlotEvent)) func(SlotEvent) {
	return func(e SlotEvent) {
		next(e)
		args := []any{"slot", e.Slot}
		if e.PID != 0 {
			args = append(args, "pid", e.PID)
		}
		args = append(args, "incarnation", e.Incarnation)
		if e.Kind == SlotReplaced {
			args = append(args, "wait", e.Wait)
		}
		if e.Err != nil {
			args = append(args, "error", e.Err)
		}
		switch e.Kind {
		case SlotReady:
			log.Info("slot: "+e.Kind.String(), args...)
		case SlotOut:
			log.Error("slot: "+e.Kind.String(), args...)
		default:
			log.Warn("slot: "+e.Kind.String(), args...)
		}
	}
}

var ownPID = os.Getpid()

// Measurement is a value of a metric that a program has defined.
type Measurement struct {
	Name  string
	Gauge bool // the value replaces the previous one; otherwise it is added to it
	Value float64
	Slot  int // of the process that has measured it
}

// logTimerEvent writes an event of the watchdog to a log.
func logTimerEvent(log *slog.Logger, level slog.Level, e timers.Event) {
	args := []any{}
	if e.Worker != "" {
		args = append(args, "holder", e.Worker, "scope", e.Scope, "after", e.After, "overdue", e.Overdue)
	}
	if e.Err != nil {
		args = append(args, "error", e.Err)
	}
	log.Log(context.Background(), level, "timers: "+e.Kind.String(), args...)
}
