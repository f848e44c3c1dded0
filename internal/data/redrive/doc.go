// Package redrive runs the failed items of a completed job Again: it is a source of items and a
// finisher. Its input is the items as the error records keep them, which it copies into the store, one
// after the other: the ordinals of the redrive count these. Its output is the job's own, into which it
// merges the new outcomes of the items.
//
//   - source.go: the failed items as a source, in the form they are run again in; the items of one batch, for Process,
//     with their ordinals in the completed job
//   - finish.go: publishing the merged output, and adopting what an earlier attempt has published
//   - merge.go: merging new outcomes into parts or into a file
package redrive
