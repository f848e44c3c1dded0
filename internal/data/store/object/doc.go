// Package object says what a store is: a Dir holds objects under keys, and a Writer makes one of
// them visible as a whole or not at all. Packages local and bucket implement it, with the errors and
// the rules for keys that lie here; package store opens them.
package object
