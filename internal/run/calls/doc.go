// Package calls makes the calls of a handler and gives each item one outcome, whatever the handler
// does. It knows neither batches nor stores: activities cuts batches into calls and records their
// outcomes, worker brings the handlers.
//
//	handler.go    what a handler is, and a call; the form of its items; who counts
//	fault.go      why a call, or an item, failed; the limits of texts
//	answer.go     the outcomes of a call's items, in order
//	caller.go     makes calls, tries them again, narrows a fault down to single items
//	trials.go     what items without an outcome have behind them
//	callwatch.go  looks after the calls of one batch: timers, stop, drain, heartbeats; what a handler sees of a stop
//	abandon.go    leaves behind a Go call that does not return, and says what becomes of it
//	slowdown.go   how a handler asks for less, and whether the job does
//	lane.go       one call at a time, of those that a batch has at once, and its goroutine
//	callsize.go   arithmetic of how many items a call gets (handlers say what they want, package worker); how much they
//	              may answer; how many items may begin
//	slot.go       where calls run
//	solo.go       calls in their own process; a call within a call
//
// # A call that fails
//
// The worker retries a call that fails as a whole (an error, a crash, a wrong number of results), and then halves it:
// each half gets one try, a single item one more. So one bad item among n costs 2·log₂(n) + attempts further calls,
// and no other item. A handler that takes items one by one, or that names the items that failed, needs none of that.
//
// Which call the end of a program is blamed on, and who counts it, the worker says (worker/programend.go). If a program
// dies with several calls in hand, those are made again in halves, each of which has the program to
// itself, until one call dies alone (internal/run/company, decision 023).
//
// A batch whose workers keep dying is narrowed down by the leg in the same way (dispatch/task.go): it
// dispatches the first half of the suspected items, and so on, until one item is left that runs alone and dies alone;
// that one is recorded as failed. Deaths of workers, ends of whole processes and errors that pass have their own
// counts, and a drain or a rest says nothing of an item. The last heartbeat's hint of what was in hand shortens the
// search.
//
// A call's answer is held in memory until its items have their outcomes, so it is bounded (callsize.go): what does not
// fit is called again in smaller calls, which costs no try. A worker learns how much an item's answer takes and cuts
// its calls for that; outcomes go to the part between the calls of a batch.
package calls
