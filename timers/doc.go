// Package timers holds expiry timers: countdowns that a worker holds for named scopes. A worker
// with an expired timer is presumed hung and is reaped.
//
// A batch's own timer is its heartbeat timeout on the server: the worker heartbeats only while it
// can vouch for itself, so that a worker which hangs, dies or is cut off loses its batches after
// one expiry. The timer around every call of a handler (its call timeout) is a [Scope].
package timers
