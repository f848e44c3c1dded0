// Package feedclient carries items from many goroutines to a feed, and their results back.
//
//   - client.go: what callers use: lists of items are submitted, accepted or refused, and wait for their outcome;
//   - temporal.go: what the client needs of a feed, as an interface, and the errors of that; the legs of a real feed;
//   - coalesce.go: which lists go together in one exchange, and when;
//   - ask.go: one request, repeated until its outcome is known; which leg takes items, and what follows if none
//     does any more;
//   - exchange.go: what follows from the answer to an exchange, and from a refusal;
//   - results.go: results and those who wait for them;
//   - requests.go: the other requests: reset, close, state, and why an item is late.
//
// All state is behind one lock. Goroutines exist only while a request is under way.
//
// # How it works
//
// jobs.Feed is the API; internal/feedclient carries items and results, over an interface (Legs) with a Temporal
// implementation and, for tests, a simulation (feedsim) that seals legs, loses and delays requests and answers,
// restarts and ends. One lock guards all state, and goroutines exist only while a request is under way.
//
//   - Exchanges. Temporal allows ten updates in flight on a run. A client has at most three at a leg: one that waits
//     for results, with items or without, and two that carry items and are answered at once. Lists that come
//     meanwhile go together in the next one; callers that an answer has woken together have up to 5 ms to put again,
//     so that they stay together. If a joint list is refused, the refusal's own numbers decide which of its lists
//     would not have fitted alone; the others are sent again.
//   - Once. A request whose outcome is unknown is repeated with its update ID at the same run of the same leg,
//     before its items are sent in any other way. Runs are pinned by their ID, since a resumed job has others under
//     the same names.
//   - Results are matched by leg, ordinal and session. One may come before the answer that names its item; one of a
//     leg that has ended may still be under way in an answer. A client that gives up an exchange takes another
//     token, so that the leg's late answer cannot contain results of later callers.
//   - From the store come results that an answer does not have: feedstore reads parts for the callers of a feed,
//     each part once, and follows what a feed commits from a cursor on. job knows it as an interface, so programs
//     that do not use it do not link a bucket's client.
package feedclient
