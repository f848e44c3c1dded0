// Package feedclient carries items from many goroutines to a feed, and their results back.
//
//   - client.go: what callers use: lists of items are submitted, accepted or refused, and wait for their outcome;
//   - legs.go: what the client needs of a feed, as an interface, and the errors of that;
//   - temporal.go: the legs of a real feed;
//   - coalesce.go: which lists go together in one exchange, and when;
//   - ask.go: one request, repeated until its outcome is known;
//   - exchange.go: what follows from the answer to an exchange, and from a refusal;
//   - results.go: results and those who wait for them;
//   - resolve.go: which leg takes items;
//   - ended.go: what follows if none does any more: everyone who waits gets an error;
//   - requests.go: the other requests: reset, close, state, and why an item is late.
//
// All state is behind one lock. Goroutines exist only while a request is under way.
package feedclient
