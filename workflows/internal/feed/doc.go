// Package feed has jobs whose items come from clients.
//
//	work.go, handle.go     a feed: its legs as the coordinator deals with them
//	rules.go               what rules count: outcomes by session, items of earlier runs; a feed in which nothing finishes
//	leg.go, exchange.go    the leg of a feed, and what it exchanges with clients
//	supply.go, commit.go   where its batches come from, and where results go
//
// # How it works
//
// A feed is a kind of Work: its assignments are legs that take items (FeedLeg), after the pages of what earlier
// runs have left. Items never pass through the job.
//
//	client: put, call ──▶ update "exchange": items in, results out (≤ 1,000 items, 1 MiB)
//	                         │
//	   NAME/leg-N on the pool's queue ── Process with its items, started eagerly on the same worker
//	                         │               outcomes inline (≤ 64 KiB a batch), or in a part
//	                         └─ CommitFeed every 10 s or 1 MiB: one part of many small results
//	   NAME ── opens, seals, resets, stops, closes; Finish, report
//
// These are the rules:
//
//   - Legs take the updates (leg.go, exchange.go), because continue-as-new would end a run's activities,
//     and a slow item would hold up every put. A leg is sealed after 1,500 exchanges, 3,000 events or 10 MiB of
//     history, or from 5 MiB on if what it has would make it 20: it finishes what it has, and opens its successor,
//     which stands by, with one signal: first ordinal, session, and how much of the capacity is taken. Later it
//     passes on the capacity that it frees. Clients that meet a sealed leg get the typed refusal Moved. Legs outlive
//     a run of the job; their end is a signal. A leg stops if its job is gone. The run that has started it requests
//     its cancellation at its end; after that, the leg notices when a report of its own cannot be delivered. An idle
//     leg reports nothing: it stays until the job is resumed, or started anew.
//   - Books of a leg are in workflows/internal/intake: which items wait, run or are done, who wants their results,
//     how much of the capacity is taken. It asks no clock and does nothing by itself. A list is accepted or refused
//     as a whole, in the update's validator: a refusal leaves no event.
//   - Once. An update's ID is the client's token and a number, and the server knows the updates of a run, also of
//     one that has ended. So a client (internal/feedclient) asks again at the same leg until it knows the outcome,
//     before it turns to any other.
//   - Waiting. Temporal allows ten updates in flight. Eight may wait for results, for up to 20 s; the others return
//     at once with what there is and when to ask again. A client has one waiting exchange. When another exchange
//     comes, only four of those that have waited for a second may continue to wait, and the oldest of these makes
//     room for another client's if all eight places are taken.
//   - Batches are cut when they leave (supply.go). They are started eagerly: workflow task and activity are on
//     the same queue, so the worker that answers the update runs the batch without asking the server. Once a second
//     a batch is not started eagerly, so that other workers become known.
//   - Large results, and all once a leg's history has 20 MiB, are in a part, and the answer names it: clients read
//     it from the store (decision 028).
//   - Results come back in the activity's result and are given out once, with the answer of an exchange.
//     commit.go gathers them, and internal/data/feeds writes them as ordinary parts, with the ranges that resets
//     have discarded. What has no outcome when the feed is stopped is spilled to the store by the last commits, and
//     the next run reads it from there (PlanFeed); after a terminate a query returns what no commit has, compressed,
//     because each query replays the leg's history. If the server has removed that history, PlanFeed looks in the
//     store for manifests that no report names, and records accepted items that it cannot find as failed, of kind
//     lost. Unfinished items of an earlier run take their part of the capacity: the job reports to the leg that
//     takes items how many of them are done (rules.go).
//   - Sessions. A reset reaches one leg. The job passes it on to the others. Tolerances count the present session
//     only: legs tally the outcomes of its items, and report them with its number.
//   - Stalls (rules.go). The leg that takes items gets reports of all capacity that others free, so it knows
//     whether any item finishes. If none does for 30 s although items are unfinished, it reports that to the job,
//     and again when one has finished.
//
// Decisions 026 and 029 say where this differs from what was planned.
package feed
