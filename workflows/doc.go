// Package workflows coordinates jobs. [Job] has assignments of the work found, has each of them run by a leg, and
// finishes the output; [Leg] keeps a window of batches in flight until its assignment is done. Both
// hold references only: ranges of the input and names of parts. [FeedLeg] takes the items of a feed, which do pass
// through it. [LoopLeg] runs a slot of a loop, whose items are ticks. All are deterministic and never sleep.
//
// # What lies where
//
//	internal/coordinate   what every job does: legs, window, stop, hooks, settings, tolerance; what a kind of job is: Work
//	internal/files, internal/data/redrive, internal/feed, internal/loop
//	                      the kinds of jobs: each implements Work, and some have legs of their own
//	internal/pages        what kinds share whose sources are read in order: pages of batches, and legs that run one each
//	internal/dispatch     what keeps a leg's batches in flight
//	internal/intake       the books of a feed's leg: items, capacity, sessions, results for clients
//	internal/execute      options of activities and legs, and what their errors mean
//	internal/throttle, internal/pool, internal/stagewindow, internal/suspicion, internal/details
//	                      arithmetic of rates, of windows, of halving; texts for people
//
// # Limits
//
// The input has no limit that a run of a workflow would come near to; the figures are with [Job] and
// [Leg], and `make limits` checks them: it runs a million batches of a million items, 10^12 items, with
// the world around the workflows simulated, and counts what every run does. On a real server, 3,000
// batches add up to the same, event by event.
//
//	limit of Temporal, of one run      a leg            the job
//	51,200 events (4,096 suggested)    3,700; ≤ 7,600   ≤ 4,096 and a few legs
//	50 MB of history (4 MB suggested)  1 MB; ≤ 2 MB     4 MB and a few legs
//	2 MB of a payload                  60 KB            20 KB and the spec
//	2,000 pending activities           601              202: small assignments, Plan, Commit
//	2,000 pending children, signals    0, some          24, some of each leg
//	10,000 signals                     some             stops, and some of each leg
//	2 MB of memo                       200 B            200 B and the output's name
//
// The first figure of a leg is the worst case if nothing is repeated: six events for each of its 600 batches, three of
// the activity and three of a workflow task that it shares with no other. The second is for any number of
// repetitions.
//
// Handlers that ask to slow down make it more: a leg pauses by a timer each time, and continues as new the
// sooner; it reports 640 requests to the job on its first day, 2,000 in a month, and each is ten
// events and a signal there. A leg reports its failures some ten times, and eight times more whenever they
// have doubled, if there is a tolerance. A setting is a signal for each open leg, and the window one more.
//
// The window is at most 10,000 over all legs. It needs 17 legs, each with its page of 600 batches in flight; up to 24
// are open, so that some can drain. No more are opened than the places need: with a window of 64 there is one, and
// another one while it drains. The spec is a part of what a job carries, and of every Plan's and leg's input: it takes
// at most 512 KiB as JSON, the names of its inputs 448 KiB. A directory, a prefix or a pattern stands for any number of
// inputs.
//
// These are the usual sizes. TestLargest_OfJobs has the largest: the input of a leg that continues as new with 600
// tasks, each of which has failed in every way, in a job with the largest spec, takes 1.9 MB.
//
// # Bounds outside of Temporal
//
// Plan, Commit and Finish hold references only as well, but Finish goes through those of the whole job:
//
//   - It reads the head of every manifest, one after the other, and keeps some 400 bytes of each: one
//     manifest for 600 batches. Then it reads all entries three times, in order, some 150 bytes for a
//     batch, of which it holds a few thousand at a time. For 10^12 items in 10^7 batches of 100,000
//     these are 17,000 manifests, 7 MB of memory, and 1.5 GB to read three times: seconds on a disk,
//     minutes from a bucket.
//   - An output that ends in '/' has a list of its parts, which is written line by line. What must not be swept is read
//     from the manifests while the store is listed, which has the same order. A bucket is listed page by page, a local
//     directory at once: some 200 bytes for each part of a run, 2 GB at 10^7 batches. Larger batches have fewer. Of
//     results that are split, 64 MB are in memory, and the names of at most 1,000 files.
//   - All results are read once to be verified, and joined if the output is one file: at 500 MB/s 24
//     hours, after which Finish is given up, are 43 TB. Files and objects have their own limits (5 TB
//     on S3).
//   - Ordinals and offsets have 63 bits; names of parts sort up to 10^15 items.
package workflows
