// Package meters measures what a worker does, with OpenTelemetry: the instruments of a worker in one
// meter provider, and a provider whose values a Prometheus server can read.
//
// Names are those that Prometheus shows, without the endings that its exporters add: "_seconds"
// for the unit, "_total" for counters. Every series has the label pool. Nothing here is global.
//
// A worker's tally counts the outcomes of batches, calls and items, job by job. The activities report to it as their
// Observer, and it reports to meters (instruments in an OpenTelemetry provider: that of the endpoint, and the
// program's own) and sinks. Slots and the watchdog are read when somebody asks (decision 009, list).
package meters
