// Package inputs reads the inputs of jobs and cuts them into batches.
//
//   - inputs.go: what a worker keeps of inputs between activities
//   - table.go, list.go, own.go: the source table of a job, and how it is made of a job's spec
//   - written.go: what jobs have written for themselves, which is no data; identity.go: inputs that were replaced;
//     digests.go: bytes of a batch that have changed
//   - bundle.go: small inputs, many of which are one source
//   - plan.go, planner.go, skip.go: pages of batches, without what earlier runs account for
//   - sizing.go: how large batches are; page.go: how a page is packed
//   - range.go: the items of one batch, for Process
//   - open.go, lazy.go, stdin.go: opening sources; the standard input
//   - maxinput.go: how large a copy may be
//   - spool.go, spoolreader.go, spoolwriter.go: uncompressed copies in the store
package inputs
