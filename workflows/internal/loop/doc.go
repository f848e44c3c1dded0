// Package loop has jobs whose items are the ticks of a clock: its slots as the coordinator deals with them, and the leg
// that runs one.
//
// # How it works
//
// A loop is a fourth kind of Work: its assignments are slots, each run by a leg of its own (LoopLeg), so that no slot
// waits for another one's tick when a leg continues as new. A leg has one endless batch, and the same dispatcher. Its
// execution of Process returns with a rest at the next full hour, when its worker drains, or at a stop.
//
//   - Source and sink of a slot are one object (internal/data/loops): a tick is handed out once the one before has its
//     outcome, at its time; parts are written between two ticks, or while the slot waits for one. After each part a
//     manifest of all parts of the execution is written, which replaces the one before. The next execution, whose
//     beginning shows which manifest has been accepted, removes those that were replaced before it writes its own
//     (parts.go).
//   - Progress is in heartbeats, every second, and in the result: ordinal, base, head of the manifests, counts. The
//     dispatcher takes the last heartbeat of an execution that is lost, or still runs when a stop's time is over, as
//     if it were its result (Config.Recover), so no tick that it counts is run again. An execution that fails has
//     the same as its error's detail.
//   - The job gets a slot's numbers only when its leg ends. Reports read the heartbeats of running activities from
//     the server.
//
// decision 027 has the reasons.
package loop
