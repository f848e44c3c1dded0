// Package workflows coordinates jobs. Job plans a file job page by page, has each page run by a
// leg, and finishes the output; Leg keeps a window of batches in flight until its page is done.
// Both are deterministic and hold references only: ranges of the input and names of parts.
//
// # Limits
//
// Temporal suggests continue-as-new at 4,096 events and ends a run at 51,200 events or 50 MB.
//
//   - A leg has at most 1,000 batches of 3 events and some 750 bytes each, a fifth of an event a
//     batch for workflow tasks, and a commit with some 150 bytes a batch: about 3,300 events, 1 MB,
//     its largest payload 170 KB. Rests and repetitions add to that; at 4,000 events the leg stops
//     dispatching, commits and continues as new with what is left.
//   - A job run spends some 22 events and 15 KB on a leg (plan, start, window, end) and continues as
//     new once Temporal suggests it, which carries it over about 180 legs: 180,000 batches a run.
//   - Between runs a job carries its counts, its cursor and the heads of its manifest chain: at most
//     one for each open leg and one more. A run therefore costs the same however many came before.
//   - Pending activities of one run are at most the window of 1,000, one Plan and one Commit; pending
//     children at most two; a leg gets at most eight signals.
//
// So the input has no limit that a run would come near to: 10^12 items in batches of 100,000 are
// 10^7 batches, 10^4 legs and some 60 runs of the job.
package workflows
