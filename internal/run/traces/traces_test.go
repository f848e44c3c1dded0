package traces

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.temporal.io/sdk/temporal"
)

// from looks variables up in a map.
func from(env map[string]string) Lookup {
	return func(name string) (string, bool) { value, set := env[name]; return value, set }
}

// Nothing traces unless the environment names where spans go, and what it says wrongly is refused.
func TestFromEnvironment(t *testing.T) {
	t.Parallel()
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for _, env := range []map[string]string{
		nil, {"OTEL_SERVICE_NAME": "x"}, {endpoint: "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
		{endpoint: "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"},
	} {
		tracer, err := FromEnvironment(t.Context(), from(env))
		require.NoError(t, err)
		require.Nil(t, tracer)
	}
	for _, env := range []map[string]string{
		{endpoint: "http://127.0.0.1:1"}, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1"}, {"OTEL_TRACES_EXPORTER": "otlp"},
		{endpoint: "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, {endpoint: "http://127.0.0.1:1", "OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1"},
	} {
		tracer, err := FromEnvironment(t.Context(), from(env))
		require.NoError(t, err)
		require.NotNil(t, tracer, env)
		require.NoError(t, tracer.Close())
		require.NoError(t, tracer.Close())
	}
	for name, value := range map[string]string{
		"OTEL_TRACES_EXPORTER": "jaeger", "OTEL_TRACES_SAMPLER": "sometimes", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json",
	} {
		_, err := FromEnvironment(t.Context(), from(map[string]string{endpoint: "http://127.0.0.1:1", name: value}))
		require.ErrorContains(t, err, value)
	}
	_, err := FromEnvironment(t.Context(), from(map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2"}))
	require.ErrorContains(t, err, "use a number from 0 to 1")
}

// M8: without a tracer nothing is made.
func TestTracer_None(t *testing.T) {
	var none *Tracer
	none.Workflow(Workflow{})
	e := none.Batch(Batch{})
	require.Nil(t, e.Spans())
	e.End(0, 0, nil)
	require.NoError(t, none.Close())
	require.Zero(t, testing.AllocsPerRun(10, func() { none.Batch(Batch{}).End(1, 0, nil) }))
}

// M8: each process finds the same IDs, and executions of one batch find each other.
func TestBatch_Links(t *testing.T) {
	t.Parallel()
	exporter := tracetest.NewInMemoryExporter()
	spans := func(activity string, err error) tracetest.SpanStub {
		exporter.Reset()
		e := New(sdktrace.WithSyncer(exporter)).Batch(Batch{Ref: wire.Ref{Job: "j", Run: "run"}, Workflow: "leg", Activity: activity})
		e.End(3, 1, err)
		return exporter.GetSpans()[0]
	}
	first, second := spans("batch-7.1", errors.New("no store")), spans("batch-7.2", nil)
	require.Equal(t, first.SpanContext.TraceID(), second.SpanContext.TraceID())
	require.Equal(t, first.Parent.SpanID(), second.Parent.SpanID())
	require.Empty(t, first.Links)
	require.Equal(t, codes.Error, first.Status.Code)
	require.NotContains(t, first.Status.Description, "no store", "messages may quote items")
	require.Equal(t, "Exhausted", kindOf(fmt.Errorf("job: %w", temporal.NewApplicationError("item 7: SECRET", "Exhausted"))))
	require.Equal(t, first.SpanContext.SpanID(), second.Links[0].SpanContext.SpanID())
	require.NotEqual(t, first.SpanContext.SpanID(), second.SpanContext.SpanID())
	require.Empty(t, spans("other", nil).Links)
}

// An execution of many calls has spans of some of them, and what the others call belongs to the batch.
func TestExecution_BoundsItsCalls(t *testing.T) {
	t.Parallel()
	exporter := tracetest.NewInMemoryExporter()
	e := New(sdktrace.WithSyncer(exporter)).Batch(Batch{Ref: wire.Ref{Run: "run"}, Activity: "batch-1.1"})
	var last calls.CallSpan
	for i := range int64(mostCalls + 50) {
		last = e.Call(i, 1)
		last.End(calls.CallStats{Items: 1})
	}
	e.End(mostCalls+50, 0, nil)
	spans := exporter.GetSpans()
	require.Len(t, spans, mostCalls+1)
	require.Equal(t, spans[mostCalls].SpanContext.SpanID(), last.Context().SpanID())
}

// The header of a call is the W3C's, and another process finds the span by it.
func TestUnder(t *testing.T) {
	t.Parallel()
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	span := calls.Under(parent).Call(0, 1).Context()
	require.Equal(t, "4bf92f3577b34da6a3ce929d0e0e4736", span.TraceID().String())
	for _, wrong := range []string{"", "00-x", "00-00000000000000000000000000000000-00f067aa0ba902b7-01"} {
		require.Nil(t, calls.Under(wrong))
	}
}
