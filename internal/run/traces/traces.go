// Package traces makes OpenTelemetry's spans of jobs: job, leg, batch, call. It does so if the environment asks for it, by
// OpenTelemetry's own variables.
//
// Nothing of a trace is in a history. A job has its trace's ID, and each of its workflows and executions its span's ID,
// from the ID of the job's run: whoever has that knows the parents of its spans, and executions that repeat one another
// find each other (decision 087). A span is made by whoever sees its end.
//
//	traces.go     who asks for traces; the provider
//	workflows.go  spans of jobs and legs
//	batches.go    spans of executions and of their calls
//	ids.go        the IDs
package traces

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Tracer makes spans. A nil one makes none, and costs nothing. It must be closed.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// Lookup returns a variable of the environment.
type Lookup func(name string) (value string, set bool)

// wanted reports whether the environment asks for traces: it names where they go.
func wanted(env func(string) string) (bool, error) {
	if disabled, _ := strconv.ParseBool(env("OTEL_SDK_DISABLED")); disabled {
		return false, nil
	}
	switch exporter := env("OTEL_TRACES_EXPORTER"); exporter {
	case "none":
		return false, nil
	case "otlp":
		return true, nil
	case "":
		return env("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "", nil
	default:
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER %q: use otlp or none", exporter)
	}
}

// FromEnvironment returns a tracer that sends spans where the variables OTEL_… say, by OTLP; nil if they do not ask for
// traces. Only what decides that is looked up by lookup; the exporters read the process's own environment.
func FromEnvironment(ctx context.Context, lookup Lookup) (*Tracer, error) {
	env := func(name string) string { value, _ := lookup(name); return strings.TrimSpace(value) }
	on, err := wanted(env)
	if err != nil || !on {
		return nil, err
	}
	sampler, err := samplerOf(env)
	if err != nil {
		return nil, err
	}
	exporter, err := exporterOf(ctx, env)
	if err != nil {
		return nil, fmt.Errorf("making the exporter of traces: %w", err)
	}
	about, err := resource.New(ctx, resource.WithSchemaURL(""), resource.WithAttributes(serviceName), resource.WithFromEnv(), resource.WithHost(), resource.WithProcessPID())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return New(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about), sdktrace.WithSampler(sampler)), nil
}

// New returns a tracer with options of its provider.
func New(options ...sdktrace.TracerProviderOption) *Tracer {
	provider := sdktrace.NewTracerProvider(append(options, sdktrace.WithIDGenerator(chosen{}))...)
	return &Tracer{provider, provider.Tracer("github.com/stint-run/stint")}
}

// exporterOf returns the exporter for the protocol that is asked for: http/protobuf if none is.
func exporterOf(ctx context.Context, env func(string) string) (*otlptrace.Exporter, error) {
	protocol := env("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
	if protocol == "" {
		protocol = env("OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	switch protocol {
	case "", "http/protobuf":
		return otlptracehttp.New(ctx)
	case "grpc":
		return otlptracegrpc.New(ctx)
	}
	return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL %q: use http/protobuf or grpc", protocol)
}

// samplerOf returns the sampler that is asked for. All processes decide by the trace's ID alone, so that they agree
// without a word: parentbased_… is the same as the rest of its name.
func samplerOf(env func(string) string) (sdktrace.Sampler, error) {
	switch name := strings.TrimPrefix(env("OTEL_TRACES_SAMPLER"), "parentbased_"); name {
	case "", "always_on":
		return sdktrace.AlwaysSample(), nil
	case "always_off":
		return sdktrace.NeverSample(), nil
	case "traceidratio":
		share := env("OTEL_TRACES_SAMPLER_ARG")
		if share == "" {
			share = "1"
		}
		ratio, err := strconv.ParseFloat(share, 64)
		if err != nil || !(ratio >= 0 && ratio <= 1) {
			return nil, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG %q: use a number from 0 to 1", share)
		}
		return sdktrace.TraceIDRatioBased(ratio), nil
	default:
		return nil, fmt.Errorf("OTEL_TRACES_SAMPLER %q: use always_on, always_off or traceidratio", name)
	}
}

// closeLimit is how long the last spans may take to be sent.
const closeLimit = 5 * time.Second

// Close sends what is left. It can be repeated.
func (t *Tracer) Close() error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("sending the last spans: %w", err)
	}
	return nil
}
