// Package dispatch is the leg's side of running batches, whatever kind of leg it is. A [Dispatcher] keeps a window of
// batches in flight. It knows neither pages nor commits nor the kind of job: a leg gives it a [Supply] of batches, a
// [Recorder] of results, a function that executes a batch, and a [Link] to its job. It is deterministic, and never
// sleeps.
//
// # What lies where
//
//	dispatcher.go            what a leg gives a dispatcher, and what keeps batches in flight
//	task.go                  a batch; one whose workers keep dying, and its narrowing down; workers that were thought dead
//	outcome.go               what follows from the end of a batch
//	window.go                a leg's share of the window, and of the rate; what it reports of the pool
//	stop.go                  a stop, and a failed item where the first one ends the job; what is still running after it
//	pause.go                 a pause of the job
//	signals.go               the signals between a job and its legs, those that reach a leg, those that it sends
//	life.go                  what it keeps of its life, for samples; its slowest batches
//	progress.go              what it reports of failed items; what queries and people see, by stages, too
//
// # Another kind of leg
//
// A leg that gets its batches while it runs has its own Supply, and calls [Dispatcher.Wake] after every change of it
// (from the handler of an update, say). Its Config.Process completes the input of the activity and may change its
// options; its Recorder gets the whole result. A leg in its own workflow uses [NewParentLink], calls
// Listen before Run, and then NoteStragglers; after Run it records, waits until its signals are delivered (Flush), and
// ends or continues as new with Handover.
package dispatch
