package calls

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Spans makes the spans of an execution's calls, for many goroutines at once.
type Spans interface {
	// Call begins that of a call of so many items from the one with that ordinal on.
	Call(first int64, items int) CallSpan
}

// CallSpan is the span of a call.
type CallSpan interface {
	Context() trace.SpanContext
	End(CallStats)
}

// Traceparent returns the call's span as the header traceparent has it, by the W3C's Trace Context; "" if it has none.
func (c *Call) Traceparent() string {
	if c.span == nil {
		return ""
	}
	s := c.span.Context()
	return "00-" + s.TraceID().String() + "-" + s.SpanID().String() + "-" + s.TraceFlags().String()
}

// withSpan returns a context that has the call's span.
func (c *Call) withSpan(ctx context.Context) context.Context {
	if c.span == nil {
		return ctx
	}
	return trace.ContextWithSpanContext(ctx, c.span.Context())
}

// beginSpan begins the span of a call of so many items from the one with that ordinal on.
func (c *Caller) beginSpan(a *attempt, first int64, items int) {
	if c.Spans != nil {
		a.span = c.Spans.Call(first, items)
	}
}

// endSpan ends it.
func (c *Call) endSpan(stats CallStats) {
	if c.span != nil {
		c.span.End(stats)
	}
}

// Under returns what gives calls the span of another process, as the header traceparent names it; nil if it names none.
func Under(traceparent string) Spans {
	if traceparent == "" {
		return nil
	}
	carrier := propagation.MapCarrier{"traceparent": traceparent}
	s := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
	if !s.IsValid() {
		return nil
	}
	return under{s}
}

type under struct{ of trace.SpanContext }

func (u under) Call(int64, int) CallSpan   { return u }
func (u under) Context() trace.SpanContext { return u.of }
func (under) End(CallStats)                {}
