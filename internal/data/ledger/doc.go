// Package ledger reads and writes the objects of a job run in its store, and adds them up.
//
//   - ref.go: which data a run owns, the keys of its objects, the claim to publish, and DONE, which says what it has
//     published
//   - manifest.go: entries of accepted batches, the chain of manifests that lists them; accepted.go:
//     which objects of a run it names
//   - part.go, errorline.go: the objects of a part and the lines of its errors
//   - books.go: the sums of all entries, and whether an item is missing or counted twice
//   - errors.go: which errors are not retried; checksums of what is read
package ledger
