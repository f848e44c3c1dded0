package wire

import (
	"cmp"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path"
	"slices"

	"github.com/stint-run/stint/job"
)

// Books are a job's counts as its manifests add up to.
type Books struct {
	Items   int64 `json:"items"`
	OK      int64 `json:"ok"` // dropped ones included
	Failed  int64 `json:"failed"`
	Dropped int64 `json:"dropped"`
	// Reused are those of OK whose result is that of an earlier run; Changed and Again are those of [job.Totals].
	Reused  int64 `json:"reused,omitempty"`
	Changed int64 `json:"changed,omitempty"`
	Again   int64 `json:"again,omitempty"`
	// Equal are those of [job.Totals], without those that are Waiting for their outcome.
	Equal   int64 `json:"equal,omitempty"`
	Waiting int64 `json:"waiting,omitempty"`
	// Lines are those of the results of a job that flattens them.
	Lines int64 `json:"lines,omitempty"`
	// Discarded are items of a feed that were removed before they were run.
	Discarded int64 `json:"discarded,omitempty"`
	Parts     int64 `json:"parts"`
	Bytes     int64 `json:"bytes"` // of all results
	// ErrBytes are those of all error records, as they lie in the parts.
	ErrBytes int64 `json:"err_bytes,omitempty"`
}

// Node is a line of an index: a manifest of level 0, or one of a higher level and what that lists itself. First is the
// smallest ordinal of all of these, and End the end of the last entry. Of a manifest of level 0 the rest of the head is
// there, too, without what it names.
type Node struct {
	Key string `json:"key"`
	Head
	Alone bool `json:"-"` // without what it lists
}

// Names returns the keys of the manifests that the head names, or lists.
func (h Head) Names() []string {
	names := slices.Clone(h.Previous)
	for _, n := range h.Index {
		names = append(names, n.Key)
	}
	return names
}

// Listing returns the keys of the manifests that the head lists and that may have the item, or list one that has it.
func (h Head) Listing(item int64) (keys []string) {
	for _, n := range h.Index {
		if n.First <= item && item < n.End {
			keys = append(keys, n.Key)
		}
	}
	return keys
}

// Entry is one accepted execution of a batch, several of a feed together, or discarded items: a line of a manifest.
type Entry struct {
	Batch
	// Part is the random token of the execution; its objects are named by it. Empty: there are none.
	Part string `json:"p"`
	// Run is the run whose prefix the part lies below, if that is not the manifest's own.
	Run string `json:"r,omitempty"`

	OK      int64 `json:"k,omitempty"` // dropped ones included
	Failed  int64 `json:"e,omitempty"`
	Dropped int64 `json:"d,omitempty"`
	// Reused are those of OK whose result is that of an earlier run; Changed and Again are those of [job.Totals].
	Reused  int64 `json:"u,omitempty"`
	Changed int64 `json:"uc,omitempty"`
	Again   int64 `json:"ua,omitempty"`
	// Equal are items that have the outcome of an equal one, and Waiting those that will have it: see package unique. These
	// are among OK and Dropped until then, and have a line that says what they wait for.
	Equal   int64 `json:"uq,omitempty"`
	Waiting int64 `json:"uw,omitempty"`
	// Lines are those of the results of a job that flattens them; in any other job each result is one.
	Lines int64 `json:"ln,omitempty"`
	// Discarded are items of a feed that were removed before they were run. An entry that has some has no others, and
	// no part.
	Discarded int64 `json:"x,omitempty"`
	// Version is that of the handler; empty: it is not known.
	Version string `json:"v,omitempty"`
	// Session is that of a feed's items, which all have the same; 0: they are no feed's.
	Session int64 `json:"g,omitempty"`

	Bytes    int64  `json:"b,omitempty"` // of the results
	Sum      uint32 `json:"c,omitempty"` // CRC-32C of the results
	ErrBytes int64  `json:"eb,omitempty"`
	ErrSum   uint32 `json:"ec,omitempty"`
}

// Head is the first line of a manifest.
type Head struct {
	Run     string `json:"run"`     // whose parts the entries name
	Leg     int    `json:"leg"`     // 0: the leg that the job runs itself
	Sources string `json:"sources"` // key of the source table that the entries refer to
	// Previous lists the manifests that were complete, and named by none other, when this one's
	// leg was started, but for those that Index lists. Following both from the job's heads reaches every manifest.
	Previous []string `json:"previous,omitempty"`
	First    int64    `json:"first"` // smallest ordinal of the entries
	End      int64    `json:"end"`   // the ordinal after the last of them
	Entries  int      `json:"entries"`
	Besides
	// Index lists manifests that come before this one, so that they need not be read one by one: see index.go. Level is
	// how deep it is, and Row how many manifests of that level come in a row, with this one: the next level begins with
	// fanOut of them.
	Index []Node `json:"index,omitempty"`
	Level int    `json:"level,omitempty"`
	Row   int    `json:"row,omitempty"`
	// Logic is the version of the logic by which it is written; 0: the first one. Who does not know it reads nothing.
	Logic int `json:"logic,omitempty"`
}

// Besides is what a manifest says besides the parts that count.
type Besides struct {
	// Below bounds the ordinals of a feed: those of the manifest, and of all that it reaches, are smaller. 0: not
	// known. So a reader that looks for a young item need not go back to the beginning.
	Below int64 `json:"below,omitempty"`
	// Spills are the items that a feed had accepted when it was stopped, and that had no outcome then.
	Spills []Spill `json:"spills,omitempty"`
	// Between are the batches that were between two stages of a pipeline when the job was stopped: each has a parcel.
	Between []Batch `json:"between,omitempty"`
}

// Spill is a range of a feed's items in the store: its lines are the items' values in JSON, compact, in order.
type Spill struct {
	Key    string `json:"key"` // prefix of its objects
	First  int64  `json:"first"`
	Count  int64  `json:"count"`
	Bytes  int64  `json:"bytes"` // of the lines, with their ends
	Sum    uint32 `json:"sum"`   // CRC-32C
	Format Format `json:"format"`
	// Longest is the length in bytes of the longest line, without its end.
	Longest int   `json:"longest"`
	Session int64 `json:"session,omitempty"`
}

// End returns the ordinal after the spill's last item.
func (s *Spill) End() int64 { return s.First + s.Count }

// Done is the object DONE of a run: what it has published.
type Done struct {
	Output  job.Output `json:"output"`
	Errors  SideFile   `json:"errors"`           // of error records
	Dropped SideFile   `json:"dropped,omitzero"` // of dropped items
	// Failures are the groups of the error records.
	Failures []job.FailureGroup `json:"failures,omitempty"`
	Books    Books              `json:"books"`
	// Delivered: what goes into devices and pipes has been written into them. Of a file that shows by the file.
	Delivered bool `json:"delivered,omitempty"`
	// Kept: the output is one file, or was to be, and went into a device or a pipe: the parts are what is kept of it.
	Kept bool `json:"kept,omitempty"`
	// Filled are the manifests in which items have the outcomes of equal ones; empty: there are none.
	Filled []string `json:"filled,omitempty"`
	Merged
}

// SideFile is the content of the file of error records, or of dropped items. If there are none, there is no file.
type SideFile struct {
	Bytes int64  `json:"bytes"`
	Sum   uint32 `json:"sum"` // CRC-32C
}

// Write counts data: the file is what is written.
func (f *SideFile) Write(data []byte) (int, error) {
	f.Bytes += int64(len(data))
	f.Sum = crc32.Update(f.Sum, CRC32C, data)
	return len(data), nil
}

// Merged is what a redrive has made of a job's output; zero for other runs.
type Merged struct {
	Redriven   int64           `json:"redriven,omitempty"` // items run again
	Manifests  []string        `json:"manifests,omitempty"`
	FirstError *job.FirstError `json:"first_error,omitempty"`
	// Before lists the runs that have made the state before.
	Before []string `json:"before,omitempty"`
}

// CRC32C is the table of the checksums of all objects of a run.
var CRC32C = crc32.MakeTable(crc32.Castagnoli)

// Ref says which data a job run owns.
type Ref struct {
	Job string `json:"job"`
	// Run is the first run ID of the job's chain of runs: everything that the chain writes lies
	// below it in the store.
	Run string `json:"run"`
	// Root is the Run with which the chain of resumes began that this run is part of. Empty: it is the first one.
	Root string `json:"root,omitempty"`
	// Born is when that run started, in Unix milliseconds of the server's clock: it says which of two
	// runs is the newer one.
	Born  int64  `json:"born,omitempty"`
	Store string `json:"store"`
	// Sources is the key of the source table in the store; empty before the first page.
	Sources string `json:"sources,omitempty"`
	// Perm are the access rights that all inputs grant: local files made of them get no others. 0: any,
	// or unknown before the first page.
	Perm fs.FileMode `json:"perm,omitempty"`
	// Logic is the version of the logic that the run follows; 0: the first one.
	Logic int `json:"logic,omitempty"`
}

// RootRun returns the Run with which the job began, before any resume: an item has the same ordinal in all runs since.
func (r Ref) RootRun() string { return cmp.Or(r.Root, r.Run) }

// MergedSourcesKey and MergedManifestKey are the keys of the state that a redrive, of which there is one
// in a run, leaves: the source table, and manifest n of it.
func (r Ref) MergedSourcesKey() string { return path.Join(r.Run, "sources-merged.json") }

// MergedManifestKey is described with [Ref.MergedSourcesKey].
func (r Ref) MergedManifestKey(n int) string {
	return path.Join(r.Run, "manifests", fmt.Sprintf("merged-%08d.jsonl", n))
}

// FilledManifestKey is the key of manifest n of those in which a run's items have the outcomes of equal ones.
func (r Ref) FilledManifestKey(n int) string {
	return path.Join(r.Run, "manifests", fmt.Sprintf("filled-%08d.jsonl", n))
}

// DoneKey returns the object that says what the run has published.
func (r Ref) DoneKey() string { return path.Join(r.Run, "DONE") }
