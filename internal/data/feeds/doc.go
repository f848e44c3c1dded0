// Package feeds keeps the items and outcomes of feeds in the store. A feed is a job whose items are put by clients:
// they come with their batches, and small outcomes go back with the answers. What is accepted is written to the store
// by commits, and what a stop leaves unfinished, too. What a feed accepts or refuses is decided by its workflows
// (workflows/internal/intake).
//
//   - items.go: the items of one batch, for Process, in which form they reach a handler, and their outcomes
//   - commit.go: gathering outcomes into parts; which items are discarded
//   - plan.go: beginning a feed, and what is left of the runs that it continues: items without an outcome, in the store
//   - lost.go: items of these runs of which nothing is left
package feeds
