// Package timers guards code of handlers that may hang, with expiry timers: countdowns for named scopes. Whoever
// enters such code acquires a timer and releases it on the way out ([Do], [Expires]). If it does not get
// out in time, the timer expires: the worker is presumed hung and is reaped, so that its work can be repeated elsewhere. To the
// worker, a timer says "end me unless you hear from me in time".
//
// Three kinds of timer guard a batch, each for what the others cannot see:
//
//   - The batch's expiry is its heartbeat timeout on the server. The worker heartbeats only while
//     its watchdog is healthy and none of the batch's timers has expired. So a worker that hangs, dies or is cut off loses its
//     batches after one expiry, with nobody's help.
//   - The call timeout is a timer around every call of a handler.
//   - A handler guards the risky blocks of its code with its own timers: [Do] and [Expires] here,
//     acquire and release frames in the serve protocol.
//
// One watchdog looks after the timers of all workers of a process, in rounds, every 100 ms. One expired timer condemns the worker; once it
// is reaped all its timers are gone. A timer with [ReportOnly] only raises an event. Times are taken from the monotonic clock, as durations
// from the moment at which a timer is acquired; setting the machine's clock changes nothing. If the watchdog is not running, or is late,
// timers are refused with an [AwayError] at once: code that asks to be guarded must not run unguarded without knowing it.
//
// # Source
//
// The idea, and the words timer, scope, acquire, release and reap, are those of torch elastic's
// expiration timers (torch.distributed.elastic.timer). The default scope there names a line of the standard library, the same for all
// callers, so nested scopes end each other's timers; here it is the caller's file and line, and each entering has its own timer, under
// recursion and in several goroutines too. A client whose server is away does not notice there (queue), or notices after a second
// (named pipe); here it gets an error at once.
package timers
