// Package feeds keeps the items and outcomes of feeds in the store. A feed is a job whose items are put by clients: they
// come with their batches, and small outcomes go back with the answers. What is accepted is written to the store by
// commits, and what a stop leaves unfinished, too.
//
//   - items.go: the items of one batch, for Process, and in which form they reach a handler
//   - sink.go: the outcomes of one batch
//   - commit.go: gathering outcomes into parts; which items are discarded
//   - unfinished.go: items without an outcome, in the store
//   - plan.go: beginning a feed, and what is left of the runs that it continues
//   - lost.go: items of these runs of which nothing is left
package feeds
