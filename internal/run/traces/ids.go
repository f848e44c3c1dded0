package traces

import (
	"context"
	"crypto/rand"
	"crypto/sha256"

	"go.opentelemetry.io/otel/trace"
)

// traceOf returns the ID of the trace of a job's run.
func traceOf(run string) (id trace.TraceID) {
	sum := sha256.Sum256([]byte("stint trace " + run))
	copy(id[:], sum[:])
	return id
}

// spanOf returns the ID of a span of a job's run: of the workflow with that run ID, or of the execution with that
// activity ID.
func spanOf(run, what string) (id trace.SpanID) {
	sum := sha256.Sum256([]byte("stint span " + run + " " + what))
	copy(id[:], sum[:])
	return id
}

// contextOf returns the context of a span that another process may have made.
func contextOf(run, what string) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: traceOf(run), SpanID: spanOf(run, what), TraceFlags: trace.FlagsSampled, Remote: true,
	})
}

// chosen is an IDGenerator that gives the next span the IDs that its context has, and others random ones.
type chosen struct{}

type chosenKey struct{}

// choosing returns a context for a span with these IDs.
func choosing(ctx context.Context, run, what string) context.Context {
	return context.WithValue(ctx, chosenKey{}, contextOf(run, what))
}

// NewIDs is one of sdktrace.IDGenerator.
func (chosen) NewIDs(ctx context.Context) (t trace.TraceID, s trace.SpanID) {
	if c, ok := ctx.Value(chosenKey{}).(trace.SpanContext); ok {
		return c.TraceID(), c.SpanID()
	}
	_, _ = rand.Read(t[:]) // it never fails
	_, _ = rand.Read(s[:])
	return t, s
}

// NewSpanID is one of sdktrace.IDGenerator.
func (chosen) NewSpanID(ctx context.Context, of trace.TraceID) (s trace.SpanID) {
	if c, ok := ctx.Value(chosenKey{}).(trace.SpanContext); ok && c.TraceID() == of {
		return c.SpanID()
	}
	_, _ = rand.Read(s[:])
	return s
}
