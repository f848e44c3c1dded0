// Package coordinate does what every job does. A [Coordinator] opens legs and shares the window out to them, stops,
// runs hooks, takes settings, watches tolerance and rate, reports, salvages, continues as new and concludes. It knows
// no kind of job: that is its [Work], which finds the next [Assignment] and finishes the output. A leg is reached by
// its [Handle].
//
//	work.go                    what is special to a kind of job
//	coordinator.go             a job from its start to its end: input that makes no sense, signals, queries, and the loop
//	                           that starts whatever can start
//	planning.go                what an earlier run has left, the next assignment; a pool that nobody serves
//	openlegs.go, window.go     open legs, how many places of the window each of them gets, and the rate of all
//	stop.go, conclude.go       settings and stops; how a job ends
//	pause.go
//	hooks.go, tolerance.go
//
// # How a job runs
//
// An assignment of a file job is a page of at most 600 batches, which Plan finds. The job gives it to a leg, and has
// the next page planned meanwhile. A leg runs in a child workflow, or, if the first page is small, inside the job; the
// coordinator uses the same handle for both (pages/pager.go). In the leg a dispatcher
// (workflows/internal/dispatch) keeps a window of batches in flight. It takes them from a supply, has the leg execute
// them, and hands accepted results to a recorder; it knows neither pages nor commits nor the kind of job, so another
// kind of leg has the same dispatcher.
//
// The places of the window belong to the job, which grants them to its legs. A leg that has no more batches for its
// places hands them back, and the job opens the next leg with them, or grants them to one that has use for them
// (coordinate/window.go, and the leg's side dispatch/window.go). So the window is exact, there is no gap between
// pages, and a window that is wider than a page is shared by as many legs as it takes, at most 24. The window is
// automatic unless it is set: twice the batches that keep all known slots busy, from 64 to 10,000 (decision 020). The
// planning worker and every result say how much a worker runs at once.
//
// The first page has at most 16 batches, or two to six for each slot of the worker that plans it, if that is more.
// With up to 100 it is run inside the job: small jobs need no other workflow. For a large input the first page ends
// after a few, which show the handler's speed; the later pages are cut for that speed.
//
// A leg counts attempts itself. It sees every failed execution, decides what it means (see operations), and dispatches
// again. Executions that were orphaned by a process known to be dead, or that end early with a rest, cost no attempt.
// An outage, a fault of the store or of an input's host, costs none either: the leg pauses, and probes with one batch
// at a time (waitOut in dispatch/outcome.go).
//
// Workflow code never sleeps: a leg answers every workflow task at once. A batch costs three events, and three more if
// no other batch ends in the same workflow task; workers report small batches together (decision 017), and small pages
// keep a leg's history bounded (decision 003). The limits of Temporal are computed in the package's doc comment: no
// run comes near one, whatever the size of the input.
//
// # A stop
//
// A stop is a signal to the job (coordinate/stop.go): the first one counts, and the first error is the job's. The job
// sets the deadline, cancels what it plans, runs the shutdown hooks beside everything else, and sends its legs the
// signal halt. The server's list shows the state stopping 0.1 s later, because a write to it would delay the signal. A
// leg (dispatch/signals.go) takes back the batches that wait in queues and cancels the running ones. Their calls are
// told at once. A cancellation has no arguments, so deadline and reason are in the leg's memo, where the worker reads
// them once for all batches of the leg (internal/temporal/lookup); a handler that asks for them waits for that. Each
// batch ends with its outcomes so far and a rest, which is kept for a resume. The leg has its own timer for the grace
// and the 20 s in which workers end calls that do not end by themselves (dispatch/stop.go); batches that still run then
// are looked up by a local activity (Locate: it needs no worker of the pool) and named. An error in a leg causes the
// same stop (signal fail to the job). Finish has the grace, too; once the output is published the stop is too late.
//
// A worker that starts takes no batch until the jobs whose items reach its pool have taken in stops that were
// requested while nobody coordinated them (worker/stopping.go, 30 s at most for jobs that do not answer, a minute for
// one that is stopping): their batches still lie in the pool's queue. Until then its permits are shut, and it serves
// workflows, because the legs of feeds run on the pool's queue.
//
// # What legs and job exchange while they run
//
//   - Failure tolerance. A job must know in time that too many items fail, but one signal for each would be too
//     many: it gives its legs thresholds, and they report their counts (signal counts) in steps of an eighth of what
//     is still tolerated, and once if none of the first 1,000 outcomes is a success, or 20 items have failed alone
//     before any success: a batch then returns its rest, and the job decides (coordinate/tolerance.go,
//     dispatch/progress.go).
//   - Progress. The same signal reports how far a leg is, for its page and memo: at most eight times a leg, and at
//     most every 10 s. Reports ask all legs, and add what heartbeats say of batches in flight (jobs/progress.go):
//     heartbeats are read first, and each workflow says which of these executions it still has in flight, so that
//     none counts twice.
//   - Rate. Each batch is given its own rate; those of all in flight add up to the job's, and no more are in flight
//     than that needs (dispatch/window.go). If handlers ask to slow down so often that the rate must be the reason
//     (internal/run/calls/slowdown.go), the batch ends with a rest: the leg pauses at once, the job (signal slow,
//     window.go) halves the rate for all legs (limits), and it recovers automatically.
//   - Settings come by an update; invalid ones are refused without a trace (stop.go). They are part of the spec
//     from then on. A smaller window takes places from the latest legs, which dispatch nothing until that many of
//     their batches have ended.
//   - Hooks are functions of a worker that a job names; each is one activity on the pool's io queue, with a key that
//     stays the same when it is repeated (hooks.go). Init comes before any batch, once for all the runs in a chain;
//     cleanup at the end, unless something still runs. Both wait for a worker as Plan does; a shutdown hook has the
//     time of what it may unblock.
//
// # Resuming
//
// A resumed job is a new run, with the manifests of the earlier ones: Plan plans the items that they do not account
// for. A run that Temporal itself has ended (by a terminate, say) has committed only in part. A query returns the
// results that it and its legs had accepted beyond that, and the next run commits them first (coordinate/planning.go).
// Its report counts what is left of that: if this run is ended, too, the next one commits the rest. A workflow that
// was ended before it completed a workflow task answers no query. It has done nothing, so its report is made of its
// input, which has the state and the open legs of the runs before if the job has continued as new (jobs/given.go). The
// server ends legs after their job: one whose workflow ID a leg of the earlier run still has waits for that
// (openlegs.go). A run that a schedule starts gets the same input at every tick, and derives its name and the
// placeholders of its output from its workflow ID (scheduled, in coordinator.go).
package coordinate
