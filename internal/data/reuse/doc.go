// Package reuse lets a job take results of an earlier run for items that have not changed.
//
// A run notes for each part the digests of its items and the lengths of their results (notes.go, block.go). When its
// output is published, it joins all results into one object of a store, writes an index of the digests beside it
// (publish.go), and has an object name both (current.go): what the next run begins with. That run looks its items up
// (index.go, cursor.go), and copies what it finds into its own parts: it refers to nothing of the earlier one.
//
// An index is blocks of items in the order of the run: for each the digest, 16 bytes, and the length of the result, and
// a checksum of the results. So a run whose input has kept its order reads index and results from the beginning to the
// end. Where items have moved, a table leads from a digest to the block: buckets by the first bits of the digest, with
// four bytes for the item and two more of the digest. That is some 24 bytes an item. A reader holds 24 bytes for each
// block of up to 256 items, and four for each bucket of about 256: 11 MB for 100 million items.
//
// Nothing depends on an index. One that is lost, cut, damaged or of another format finds nothing, and a result counts
// only if its block has the right checksum: its items run again.
package reuse
