// Package outputs writes the parts of jobs and publishes their outputs.
//
//   - check.go: whether an output can be written, before any work is done for it
//   - part.go: the results and errors of one execution of a batch
//   - joiner.go, early.go: parts that are joined while the job still runs
//   - finish.go: the input and result of Finish
//   - publish.go, publishparts.go, sidefiles.go: the output as one file or as parts, the errors, and dropped items
//   - split.go, splitvalue.go, splitlist.go: results that are split into files by a field
//   - table.go, members.go: the output as a table
//   - report.go: the report of a run
//   - sweep.go: removing what a run no longer needs in the store
//   - results.go: the results of a job for its readers
package outputs
