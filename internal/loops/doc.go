// Package loops runs the slots of loops for Process: a source of ticks, which waits for each until it is due, and a sink that
// writes a part about every ten seconds. A loop is a job whose items are ticks of a clock.
//
//   - slot.go: one execution of a slot: what is recorded of it, and when
//   - ticks.go: the source of its ticks
//   - parts.go: the sink of their outcomes
//   - sweep.go: what it has left in the store that is of no use any more
package loops
