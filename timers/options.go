package timers

import "syscall"

// Timer is what a timer is held for.
type Timer struct {
	Scope      string
	Named      bool           // a scope of that name that is held already has its timer replaced
	Signal     syscall.Signal // with which the worker is ended; 0: the reaper chooses
	ReportOnly bool
}

// Option changes a single timer.
type Option struct {
	kind   optionKind
	signal syscall.Signal
	scope  string
}

// An Option is a value and not a function, so that a timer with options costs no allocation.
type optionKind int

const (
	optionNone optionKind = iota
	optionSignal
	optionReport
	optionNamed
)

// WithSignal names the signal, 1 to 64, with which the worker is to be ended if this timer
// expires. Without it, or with 0, the reaper chooses.
func WithSignal(signal syscall.Signal) Option { return Option{kind: optionSignal, signal: signal} }

// ReportOnly makes the timer's expiry an event and nothing else: the worker continues. The timer ends with the event.
func ReportOnly() Option { return Option{kind: optionReport} }

// Named gives the timer of [Expires] or [Do] a scope of that name, instead of the place it is
// called from. Entering a named scope that is held already replaces its timer.
func Named(scope string) Option { return Option{kind: optionNamed, scope: scope} }

// Apply changes the timer.
func (o Option) Apply(t *Timer) {
	switch o.kind {
	case optionSignal:
		t.Signal = o.signal
	case optionReport:
		t.ReportOnly = true
	case optionNamed:
		t.Scope, t.Named = o.scope, true
	}
}
