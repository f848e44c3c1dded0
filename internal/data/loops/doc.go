// Package loops runs the slots of loops for Process: a source of ticks, which waits for each until it is due, and a
// sink that writes a part about every ten seconds. A loop is a job whose items are ticks of a clock.
//
//   - slot.go: one execution of a slot: when its next tick is due, and that one is waited for; its ticks as the source
//     of a batch
//   - parts.go: the sink of their outcomes, what is recorded of them, and what is of no use any more in the store
package loops
