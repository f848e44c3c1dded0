// Package workflows coordinates jobs. Job plans a file job page by page, has each page run by a
// leg, and finishes the output; Leg keeps a window of batches in flight until its page is done.
// Both are deterministic and hold references only: ranges of the input and names of parts.
//
// # Limits
//
// The input has no limit that a run of a workflow would come near to; the figures are with [Job] and
// [Leg], and `make limits` checks them: it runs a million batches of a million items, 10^12 items, with
// the world around the workflows simulated, and counts what every run does. On a real server, 3,000
// batches come to the same, event by event.
//
//	limit of Temporal, of one run      a leg            the job
//	51,200 events (4,096 suggested)    3,200; ≤ 10,000  ≤ 4,096 and a few legs
//	50 MB of history (4 MB suggested)  1.2 MB           4 MB and a few legs
//	2 MB of a payload                  100 KB           10 KB and the spec
//	2,000 pending activities           the window + 1   118: small pages, Plan, Commit
//	2,000 pending children, signals    0, 1             2, some
//	10,000 signals                     some             stops, and some of each leg
//	2 MB of memo                       200 B            200 B and the output's name
//
// Handlers that ask for less make it more: a leg pauses by a timer each time, and continues as new the
// sooner; it tells the job of 640 such wishes on its first day, of 2,000 in a month, and each is ten
// events and a signal there. A leg tells of its failures some ten times, and eight more whenever they
// have doubled, where there is a tolerance. A setting is a signal for each open leg, and the window one more.
//
// The window is at most 1,000 over all legs. The spec is a part of what a job carries, and of every
// Plan's and leg's input: the names in Spec.Input take at most 512 KB together. A directory, a prefix
// or a pattern stands for any number of inputs.
//
// # Bounds outside of Temporal
//
// Plan, Commit and Finish hold references only as well, but Finish goes through those of the whole job:
//
//   - It reads the head of every manifest, one after the other, and keeps some 400 bytes of each: one
//     manifest for 1,000 batches. Then it reads all entries three times, in order, some 150 bytes for a
//     batch, of which it holds a few thousand at a time. For 10^12 items in 10^7 batches of 100,000
//     these are 10^4 manifests, 4 MB of memory, and 1.5 GB to read three times: seconds on a disk,
//     minutes from a bucket.
//   - An output that ends in '/' has a list of its parts, which is put together in memory, and so are
//     the names of what must not be swept: some 350 bytes a batch, 3.5 GB at 10^7 batches. Larger
//     batches have fewer. An output in one file needs none of that.
//   - All results are read once to be verified, and joined where the output is one file: at 500 MB/s 24
//     hours, after which Finish is given up, are 43 TB. Files and objects have limits of their own (5 TB
//     on S3).
//   - Ordinals and offsets have 63 bits; names of parts sort up to 10^15 items.
package workflows
