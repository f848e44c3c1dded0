// Package watchdog holds the expiry timers of package timers, and has workers reaped whose timers expire. The timer
// around every call of a handler is a [Scope], which costs a few nanoseconds.
//
// # Watchdog and clients
//
// One [Watchdog] looks after the timers of all workers of a process, in rounds, by default every 100 ms. Each worker
// that can be reaped (a slot's child process, or the goroutine that runs a handler) has a [Client], which holds its
// timers, and a [Reaper], which ends it. One expired timer condemns the worker; once it is reaped all its timers are
// gone and its client is closed. The worker's next incarnation gets a new client. In a worker that is a separate
// process, [NewRemote] makes a guard whose timers its parent holds for it. A timer with [timers.ReportOnly] only raises
// an event.
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
// A client whose watchdog is not running, or is late, refuses timers with an [timers.AwayError] at once:
// code that asks to be guarded must not run unguarded without knowing it.
//
// # Source
//
// The idea, and the words timer, scope, acquire, release and reap, are those of torch elastic's
// expiration timers (torch.distributed.elastic.timer). The differences:
//
//   - A deadline there is a time of day, compared between processes; here it is a duration on a
//     monotonic clock.
//   - Workers there are pids: a timer can outlive its process, and the kill can hit whoever has
//     got the pid since. Here timers belong to a client, which is closed with its worker.
//   - One reaping after the other delays the round there; here each has its goroutine and a limit.
//   - The file based server there forgets a worker's timers even if the reaping fails, and ends
//     its own process after a kill; here a failed reaping is retried every round, and the
//     watchdog's own process is never signalled.
//
// # In a worker
//
// Three countdowns, each inside the next:
//
//	timer | held by | when it expires
//	a scope: timers.Do, stint.expires | a handler, in a block of its code | the slot's process is killed, or the Go call cancelled
//	the call's, --call-timeout | the worker, around every call | the same
//	the batch's, --expiry | the server: its heartbeat timeout | the batch runs elsewhere
//
// Scopes belong to clients, one for each program and for each Go call; the worker's watchdog looks at all of them ten
// times a second. Before it has a program killed it handles the frames that the program has already sent: a release
// sent in time saves it. The worker requests the program's stacks first (worker/programend.go), which end up in the
// error.
//
// Beside every batch runs a watch (internal/run/calls/callwatch.go): it holds the timers of the calls in hand, each in
// its lane (lane.go), passes a stop or a drain on to the batch and its handler, cuts the calls off at its end (programs
// get TERM, then KILL), and heartbeats only while the watchdog is healthy and no timer of the batch is overdue: a
// worker that cannot guarantee the progress of a batch loses it to another one.
//
// A user's Go code cannot be killed inside the worker's process. Each of its calls runs in its own goroutine; one that
// ignores its cancelled context for 5 s is left behind, its item has expired, and its later results are ignored.
package watchdog

// What lies where:
//
//	client.go     the timers of one worker, and what is shown of them
//	timer.go      a timer: how it is acquired and released; a call's timer, in a few nanoseconds
//	watchdog.go   rounds: what has expired; options; a watchdog that cannot be relied on
//	reap.go       ends what hangs, unless it was released in time
//	remote.go     timers that a parent holds for its child
//	event.go      what is reported
