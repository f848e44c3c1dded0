// Package inputs reads the inputs of jobs and cuts them into batches.
//
//   - table.go, list.go, own.go: the source table of a job, how it is made of a job's spec, and what a worker keeps of
//     it between activities
//   - written.go: what jobs have written for themselves, which is no data; identity.go: inputs that were replaced, and
//     bytes of a batch that have changed
//   - newfiles.go: files that earlier runs have completed
//   - bundle.go: small inputs, many of which are one source
//   - plan.go, planner.go: pages of batches, without what earlier runs account for
//   - sizing.go: how large batches are
//   - range.go: the items of one batch, for Process
//   - open.go, stdin.go: opening sources; the standard input
//   - spool.go: uncompressed copies in the store, and how large one may be
package inputs
