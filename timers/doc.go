// Package timers holds expiry timers: countdowns that a worker holds for named scopes. Whoever
// enters code that may hang acquires a timer and releases it on the way out. If it does not get
// out in time, the timer expires: the worker is presumed hung and is reaped, so that its work can be repeated elsewhere. To the
// worker, a timer says "end me unless you hear from me in time".
//
// Three kinds of timer guard a batch, each for what the others cannot see:
//
//   - The batch's expiry is its heartbeat timeout on the server. The worker heartbeats only while
//     its watchdog is healthy ([Watchdog.Healthy]) and none of the batch's timers has expired
//     ([Client.Condemned]). So a worker that hangs, dies or is cut off loses its batches after one expiry, with nobody's help.
//   - The call timeout is a timer around every call of a handler. In the worker's own process it
//     is a [Scope], which costs a few nanoseconds.
//   - A handler guards the risky blocks of its code with its own timers: [Do] and [Expires] here,
//     acquire and release frames in the serve protocol.
//
// # Watchdog and clients
//
// One [Watchdog] looks after the timers of all workers of a process, in rounds, by default every
// 100 ms. Each worker that can be reaped (a slot's child process, or the goroutine that runs a
// handler) has a [Client], which holds its timers, and a [Reaper], which ends it. One expired
// timer condemns the worker; once it is reaped all its timers are gone and its client is closed.
// The worker's next incarnation gets a new client. A worker that is a separate process may have
// a client, too, whose timers its parent holds for it ([NewRemote]). A timer with [ReportOnly] only raises an event.
//
// A round calls no code of other packages: it only finds what has expired. Settling and reaping happen
// in a goroutine for each condemned worker, and another one reports events, so neither a reaper
// that hangs nor a slow listener makes the next round late. Before a worker is reaped, it is
// settled: if its releases travel over a pipe, what it had sent by then is applied (see
// [Settler]), and only if the timer is still held after that is the worker reaped.
//
// Times are taken from the monotonic clock, as durations from the moment at which a timer is
// acquired; setting the machine's clock changes nothing.
//
// A client whose watchdog is not running, or is late, refuses timers with an [AwayError] at once:
// code that asks to be guarded must not run unguarded without knowing it.
//
// # Source
//
// The idea, and the words timer, scope, acquire, release and reap, are those of torch elastic's
// expiration timers (torch.distributed.elastic.timer). The differences:
//
//   - A deadline there is a time of day, compared between processes; here it is a duration on a
//     monotonic clock.
//   - The default scope there names a line of the standard library, the same for all callers, so
//     nested scopes end each other's timers; here it is the caller's file and line, and each
//     entering has its own timer, under recursion and in several goroutines too.
//   - Workers there are pids: a timer can outlive its process, and the kill can hit whoever has
//     got the pid since. Here timers belong to a client, which is closed with its worker, and
//     [ProcessReaper] checks a process's start time and signals through a handle.
//   - Only the process is killed there; here the process group that it leads is.
//   - One reaping after the other delays the round there; here each has its goroutine and a limit.
//   - The file based server there forgets a worker's timers even if the reaping fails, and ends
//     its own process after a kill; here a failed reaping is retried every round, and the
//     watchdog's own process is never signalled.
//   - A client whose server is away does not notice there (queue), or notices after a second
//     (named pipe); here it gets an error at once.
package timers

// What lies where:
//
//	context.go, callsite.go   Expires and Do; the default scope
//	acquire.go, client.go     acquiring and releasing; the timers of one worker
//	timer.go, callscope.go    a timer; a call's timer, in a few nanoseconds
//	watchdog.go, settle.go    rounds: what has expired; what was released in time
//	away.go                   a watchdog that cannot be relied on
//	reap.go, process*.go      ends what hangs
//	remote.go                 timers that a parent holds for its child
//	held.go, event.go         what is shown; options.go, errors.go
