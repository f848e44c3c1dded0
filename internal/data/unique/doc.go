// Package unique has a job call equal items once. Equal are items of which the handler would get the same bytes.
//
// Before the first page is planned, a Finder (finder.go) reads all items, and writes the list of the twins, the items that
// equal one before them, into the store (list.go): for each its ordinal and that of the first. It takes digests of 16
// bytes, with a key that nobody else knows, in partitions that lie in a temporary file (spill.go). With 100 million items
// it holds some 40 MB.
//
// An execution of a batch takes the twins in it from the list (Cursor), and notes each beside its part, with the ordinal
// of its first (ledger.TwinLine). When all items are done, Fill (fill.go) gives twins the outcomes of their firsts: it
// goes through the parts in order, keeps the outcomes that twins wait for in a temporary file (kept.go), and writes the
// parts that have twins anew. What is published is made of these.
//
// A list that is lost or damaged costs calls, never results: an item that is not known as a twin is called.
package unique
