// Package feedsim simulates the legs of a feed, in memory, for tests of the feed's client: capacity, sealing, sessions,
// answers that are lost or late, restarts, and ends of every kind. In a bubble of testing/synctest it runs in no time.
//
//   - feedsim.go: a feed, its items, and what happens to it;
//   - legs.go: what it answers, as feedclient.Legs, and what happens on the way to it.
package feedsim
