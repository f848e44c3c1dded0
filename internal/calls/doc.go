// Package calls makes the calls of a handler and gives each item one outcome, whatever the handler
// does. It knows neither batches nor stores: activities cuts batches into calls and records their
// outcomes, worker brings the handlers.
//
//	handler.go    what a handler is, and a call; fault.go: why one failed; bound.go: the limits of answers and texts
//	answer.go     the outcomes of a call's items, in order
//	caller.go     makes calls, tries them again
//	halve.go      narrows a fault down to single items
//	callwatch.go  looks after the calls of one batch: timers, stop, drain; heartbeat.go: whether it may heartbeat
//	abandon.go    leaves behind a Go call that does not return, and says what becomes of it
//	stopping.go   what a handler sees of a stop; slowdown.go: how it asks for less
//	lane.go       one call at a time, of those that a batch has at once
//	callsize.go   how many items a call gets; fit.go: how much they may answer
//	slot.go       where calls run; limiter.go: how many items may begin
//	counts.go     faults and failed items; observer.go: who counts
//	solo.go       calls in their own process; subcall.go: a call within a call
package calls
