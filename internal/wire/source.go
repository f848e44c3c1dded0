package wire

import (
	"io/fs"
	"time"

	"github.com/stint-run/stint/job"
)

// Bundle says where the list of a bundle's inputs lies.
type Bundle struct {
	Inputs int `json:"inputs"`
	// At and Bytes are the place of the list behind the first line of the table's object.
	At    int `json:"at"`
	Bytes int `json:"bytes"`
}

// SourceTable is the first line of the object in which a table lies in the store.
type SourceTable struct {
	Sources []Source `json:"sources"`
	// LeftOut is how many files were found that are none, because stint wrote them.
	LeftOut int `json:"left_out,omitempty"`
	// OldFiles is how many files were left out, because earlier runs have completed them.
	OldFiles int `json:"old_files,omitempty"`
	// Machine is the name of the one that has listed the sources.
	Machine string `json:"machine,omitempty"`
	// Reuse says how the run uses results of an earlier one. Nil: it does not, and keeps none.
	Reuse *Reuse `json:"reuse,omitempty"`
	// Twins lists the items that equal one before them. Nil: nobody has looked for any, or there are none.
	Twins *Twins `json:"twins,omitempty"`
	// Perm are the access rights that all sources grant which are local files; 0: there are none.
	Perm fs.FileMode `json:"perm,omitempty"`
}

// Twins names the list of a run's items that equal one before them, its twin: blocks, then where each of them begins.
type Twins struct {
	// Format is [TwinsFormat].
	Format int    `json:"format"`
	Key    string `json:"key"`
	Items  int64  `json:"items"` // of the run
	Count  int64  `json:"count"` // of these, in the list
	Blocks int64  `json:"blocks"`
	// BlockBytes are those of all blocks; Sum is the CRC-32C of what follows them.
	BlockBytes int64  `json:"block_bytes"`
	Sum        uint32 `json:"sum"`
}

// TwinsFormat is the number of the form of these lists.
const TwinsFormat = 1

// CompletedFiles is the first line of a list of the files that runs of one name have completed.
type CompletedFiles struct {
	Format string `json:"format"`
	Files  int    `json:"files"`
	Sum    string `json:"sum"` // of what follows: the digests of the files
}

// Source is one input object, or a bundle of small ones.
type Source struct {
	URL     string    `json:"url"`  // of a bundle: that of its first input
	Size    int64     `json:"size"` // bytes as stored; 0 for the standard input
	ModTime time.Time `json:"mod_time,omitzero"`
	ETag    string    `json:"etag,omitempty"`
	Inode   uint64    `json:"inode,omitempty"`
	Changed time.Time `json:"changed,omitzero"`
	Digest  string    `json:"digest,omitempty"` // see [Inputs.digest]

	Shape Shape `json:"shape"`
	Start int64 `json:"start"` // offset of the first item
	// Hint is what the beginning shows that may be meant otherwise: see Head in package records. Of a bundle each input
	// has its own.
	Hint        string      `json:"hint,omitempty"`
	Compression Compression `json:"compression,omitempty"`
	// Unsized means that the file system gives the size of the input as 0 although it has bytes, as /proc does: it is
	// read once, into a copy, and is not looked at again.
	Unsized bool `json:"unsized,omitempty"`
	// Spool is the key prefix of the uncompressed copy of an input that cannot be read from the
	// middle; empty for others.
	Spool string `json:"spool,omitempty"`
	// MaxInput is the most bytes of the copy.
	MaxInput int64 `json:"max_input,omitempty"`
	// Own means that the run has written all of the source to the store itself: it cannot change,
	// and Size is what its items take.
	Own bool `json:"own,omitempty"`
	// Ordinals is the key prefix of the list of the ordinals that the items of all sources of the
	// table have in another job; empty if this job is the first to number them.
	Ordinals string `json:"ordinals,omitempty"`
	// Spilled means that the source is items of a feed that an earlier run had accepted: Spool has them as lines, which
	// are their values in JSON, whatever Shape.Format is. Session is theirs.
	Spilled bool  `json:"spilled,omitempty"`
	Session int64 `json:"session,omitempty"`
	// Bundle is nil if the source is one input. That of others, whose Shape has no columns since each
	// input has its own, begins at offset 0.
	Bundle *Bundle `json:"bundle,omitempty"`
}

// Compression is how a file is compressed as a whole.
type Compression string

// Format is the format of the items in a file.
type Format string

// Guess says by which name the format of a source was guessed: see [Look].
type Guess string

// Shape says how to find items in the bytes of one source. It lies as JSON in the job's source
// table, so that everyone who reads a part of the source finds the same items. It is not changed
// by its methods, and may be used by several goroutines at once.
type Shape struct {
	Format Format `json:"format"`
	// Delimiter separates the fields of CSV: an ASCII character other than a quote and the line ends. Empty: a comma.
	Delimiter string `json:"delimiter,omitempty"`
	// Quote says whether fields of CSV may be quoted: "none", or a quote, or empty: they may.
	Quote string `json:"quote,omitempty"`
	// Columns are the names in the header of a CSV source, in its order, unique and not empty.
	Columns []string `json:"columns,omitempty"`
	// Array means that a JSON source is what lies behind the opening bracket of one array: its elements are the items.
	Array bool `json:"array,omitempty"`
	// Guess means that a source's Format is only a guess by its name, until [Look] has looked at it.
	Guess Guess `json:"guess,omitempty"`
	// Records means that the lines of a JSONL source are records that were read from CSV: objects of strings.
	Records bool `json:"records,omitempty"`
	// MaxItem is the size in bytes, without the line end's '\n', over which an item is invalid.
	// Values below 1 count as DefaultMaxItem, values above 1 GiB as 1 GiB.
	MaxItem int `json:"max_item"`
}

// Cursor is where in the input the next page begins.
type Cursor struct {
	Source int   `json:"source"`
	Offset int64 `json:"offset"`
	Item   int64 `json:"item"` // the next ordinal
}

// PlanInput asks for one page of batches. Ref.Sources is empty for the first page.
type PlanInput struct {
	Ref    Ref      `json:"ref"`
	Spec   job.Spec `json:"spec"`
	From   Cursor   `json:"from"`
	Resume []string `json:"resume,omitempty"` // manifests of earlier runs: what they hold is left out
	// Batches is the most batches of the page: 1 … 600. A first page may have more: see [FirstPage].
	Batches int    `json:"batches"`
	Sizing  Sizing `json:"sizing"`
	// Hurry is the time after which the page ends early, because workers wait for it; 0: no limit.
	Hurry time.Duration `json:"hurry,omitempty"`
}

// PlanResult is one page.
type PlanResult struct {
	Page []byte `json:"page,omitempty"` // see [DecodePage]
	Next Cursor `json:"next"`
	Done bool   `json:"done"` // nothing is left after this page
	// Waiting reports that the page has what has come of an input that is still being written.
	Waiting bool `json:"waiting,omitempty"`
	// Noticed is what this page has shown of the inputs.
	Noticed job.Noticed `json:"noticed,omitzero"`

	// Only the first page has these.
	Sources string     `json:"sources,omitempty"` // key of the source table
	Total   int64      `json:"total,omitempty"`   // bytes of input, 0 if unknown
	Resumed job.Totals `json:"resumed"`           // what earlier runs account for
	// LeftOut is how many files among the inputs were left out, because stint wrote them.
	LeftOut int `json:"left_out,omitempty"`
	// Reuse is the earlier run whose results the job takes. Nil: it wants none.
	Reuse *ReuseOffer `json:"reuse,omitempty"`
	// OldFiles is how many were left out, because earlier runs have completed them.
	OldFiles int `json:"old_files,omitempty"`
	// Perm are the access rights that all inputs grant: see [Ref].
	Perm fs.FileMode `json:"perm,omitempty"`
	// Worker has planned it, and can run so much.
	Worker   string   `json:"worker,omitempty"`
	Capacity Capacity `json:"capacity,omitzero"`
	Version  string   `json:"version,omitempty"` // of its handler
}

// Sizing is what the coordinating workflow knows of the handler's speed and of the pool.
type Sizing struct {
	// Rate is the items that one slot handles in 1,000 seconds of wall time; 0 while it is unknown.
	Rate int64 `json:"rate,omitempty"`
	// Slots are those of all known workers of the pool, Concurrency the calls that each makes at once; 0: not known.
	Slots       int `json:"slots,omitempty"`
	Concurrency int `json:"concurrency,omitempty"`
}
