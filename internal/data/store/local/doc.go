// Package local keeps objects in a directory of a file system. An object is written under a hidden
// temporary name beside its final one, synced, renamed, and its directory is synced. Nothing but an ordinary file is
// replaced or removed (sink.go, dir.go), and its access rights bound those of what replaces it (write.go).
package local
