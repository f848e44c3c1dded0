// Package feedsim simulates the legs of a feed, in memory, for tests of the feed's client: capacity, sealing, sessions,
// answers that are lost or late, restarts, and ends of every kind. In a bubble of testing/synctest it runs in no time.
//
//   - feedsim.go: a feed and its items;
//   - legs.go: what it answers, as feedclient.Legs;
//   - faults.go: what happens to it, and on the way to it.
package feedsim
