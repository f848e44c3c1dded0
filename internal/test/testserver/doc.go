// Package testserver starts Temporal servers for tests. Under the race detector a server is a process of its own,
// without the detector: it takes a tenth of the time, and the detector sees the same of stint's own code. Otherwise it
// runs in the test's process.
package testserver

// Namespace is the one in which tests work.
const Namespace = "default"
