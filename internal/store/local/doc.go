// Package local keeps objects in a directory of a file system. An object is written under a hidden
// temporary name beside its final one, synced, renamed, and its directory is synced.
package local
