// Package store hides where a job's bytes lie. A [Dir] is a local directory or a bucket prefix with
// the same semantics: objects appear whole, durably and under their own name, or not at all.
// [Access] opens them, and the inputs of a job, below the roots that a worker is allowed to use.
//
// A location is written as a path ("out/", "/data/x.jsonl"), as a file URL ("file:///data"), or as
// a bucket URL ("s3://bucket/pre/fix?region=eu-west-1", "mem://name/prefix"). In a bucket URL
// everything after the bucket's name is taken literally, without percent-decoding, up to a query of
// the form "?name=value&…" at its end, which goes to the bucket's driver. Parameters of s3 are
// those of gocloud.dev/blob/s3blob: region, endpoint, profile, use_path_style, anonymous and
// others. A mem bucket lives as long as the process and is shared by all that name it.
//
// Local objects are written under a hidden temporary name beside the final one, synced, renamed,
// and their directory synced. Names of that form, and names that end in ".lock", are reserved: no
// key may have them.
//
// What lies where:
//
//   - access.go, allow.go: [Access], which opens directories and inputs, and its roots
//   - location.go: how locations are written, and whether two are of one thing
//   - expand.go: the inputs of a job
//   - join.go, join_read.go: [Join], which makes one file of many objects
//   - package object: what a Dir is, its keys and errors
//   - packages local and bucket: the two kinds of Dir
package store

import "github.com/stint-run/stint/internal/data/store/object"

// What callers need of package object.
type (
	Dir           = object.Dir
	Info          = object.Info
	Writer        = object.Writer
	CorruptError  = object.CorruptError
	FencedError   = object.FencedError
	LocationError = object.LocationError
	OpError       = object.OpError
	ReplacedError = object.ReplacedError
)
