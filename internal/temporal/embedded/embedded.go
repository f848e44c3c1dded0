// Package embedded sets options of workers that only stint's own programs may set.
package embedded

import (
	"net/http"

	"go.opentelemetry.io/otel/metric"
)

// SetAlone is set by package worker; see [Alone].
var SetAlone func(options any, reads []string)

// Alone says of a *worker.Options that no other worker serves the pool while this one runs. It then
// joins the parts of a job's output while the job runs, and not only at the end. reads are locations that it
// may read besides those that it may read and write.
func Alone(options any, reads []string) { SetAlone(options, reads) }

// SetAmong is set by package worker; see [Among].
var SetAmong func(options any, label string)

// Among marks the worker of a *worker.Options as one of several in its process. The label is added to its name.
func Among(options any, label string) { SetAmong(options, label) }

// SetSampler is set by package worker; see [Sample].
var SetSampler func(options, sampler any)

// Sample has the worker of a *worker.Options try a sample for a calls.Sampler.
func Sample(options, sampler any) { SetSampler(options, sampler) }

// SetExposed is set by package worker; see [Expose].
var SetExposed func(options any, provider metric.MeterProvider, handler http.Handler)

// Expose has the endpoint of the worker of a *worker.Options show what the handler shows, to whose provider the worker's
// own metrics are added: a client of Temporal needs a provider before there is a worker.
func Expose(options any, provider metric.MeterProvider, handler http.Handler) {
	SetExposed(options, provider, handler)
}

// SetTracer is set by package worker; see [Trace].
var SetTracer func(options, tracer any)

// Trace has the worker of a *worker.Options make spans with a *traces.Tracer.
func Trace(options, tracer any) { SetTracer(options, tracer) }
