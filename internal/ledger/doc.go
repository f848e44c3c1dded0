// Package ledger reads and writes the objects of a job run in its store, and adds them up.
//
//   - ref.go: which data a run owns, the keys of its objects, and the claim to publish
//   - manifest.go: entries of accepted batches, the chain of manifests that lists them; accepted.go:
//     which objects of a run it names
//   - part.go, errorline.go, errorread.go: the objects of a part and the lines of its errors
//   - verify.go, lines.go: checksums and lines of what is read
//   - books.go: the sums of all entries, and whether an item is missing or counted twice
//   - done.go: the object DONE, which says what a run has published
//   - errors.go: which errors are not retried
package ledger
