// Package meters measures what a worker does, with OpenTelemetry: the instruments of a worker in one
// meter provider, and a provider whose values a Prometheus server can read.
//
// Names are those that Prometheus shows, without the endings that its exporters add: "_seconds"
// for the unit, "_total" for counters. Every series has the label pool. Nothing here is global.
package meters
