// Package outputs writes the parts of jobs and publishes their outputs.
//
//   - check.go: whether an output can be written, before any work is done for it
//   - part.go: the results and errors of one execution of a batch
//   - early.go: parts that are joined while the job still runs
//   - newfiles.go: jobs that run new files only
//   - form.go, publish.go: what becomes of the parts; the output as one file or as parts
//   - sidefiles.go: the errors, dropped items, and the report of a run
//   - split.go, splitlist.go: results that are split into files by a field
//   - table.go: the output as a table
//   - sweep.go: removing what a run no longer needs in the store
//   - results.go: the results of a job for its readers
package outputs
