package wire

import "github.com/stint-run/stint/internal/base/text"

// Reuse says, in a run's source table, how it keeps results for a later run, and takes those of an earlier one.
type Reuse struct {
	// Store is where it leaves its own index, and which results it has.
	Store string `json:"store"`
	// Key, Changed and Version are those of [job.Reuse]; Form says in which form results are written.
	Key     string `json:"key,omitempty"`
	Changed string `json:"changed,omitempty"`
	Version string `json:"version,omitempty"`
	Form    string `json:"form,omitempty"`
	// HashKey is that of the digests: 32 hexadecimal digits.
	HashKey string `json:"hash_key"`
	// From is the index that items are looked up in; nil: there is none that fits.
	From *ReuseIndex `json:"from,omitempty"`
	// Adds: the run is a redrive. It looks nothing up, and adds its results to those of From.
	Adds bool `json:"adds,omitempty"`
	// Unfit is why none does; empty: one does, or there is none at all.
	Unfit string `json:"unfit,omitempty"`
}

// ReuseOffer is what an earlier run has for a job.
type ReuseOffer struct {
	From  string `json:"from,omitempty"`  // "RUN of JOB"; empty: there is none, or none of its results are taken
	Items int64  `json:"items,omitempty"` // with a result
	Why   string `json:"why,omitempty"`   // there is no From
}

// Offer returns what the run that r begins is offered.
func (r *Reuse) Offer() *ReuseOffer {
	switch {
	case r == nil:
		return nil
	case r.From != nil:
		return &ReuseOffer{From: r.From.Run + " of " + r.From.Job, Items: r.From.Kept}
	case r.Unfit != "":
		return &ReuseOffer{Why: text.Fit("no results are reused: "+r.Unfit, maxWhy)}
	}
	return &ReuseOffer{Why: "nothing is reused: no run has kept results before"}
}

// maxWhy bounds the reason why nothing is reused, in bytes as JSON.
const maxWhy = 500

// ReuseIndex names the results of a completed run, and the index of its items.
type ReuseIndex struct {
	// Format is [ReuseFormat]; an index with another one is not used.
	Format int `json:"format"`
	// Location is the store that has the objects.
	Location string `json:"location"`
	Job      string `json:"job"`
	Run      string `json:"run"`
	// Key, Changed, Version, Form and HashKey are those of [Reuse].
	Key     string `json:"key,omitempty"`
	Changed string `json:"changed,omitempty"`
	Version string `json:"version,omitempty"`
	Form    string `json:"form,omitempty"`
	HashKey string `json:"hash_key"`

	// Results is the object of all results, one after the other, with its size and CRC-32C.
	Results      string `json:"results"`
	ResultsBytes int64  `json:"results_bytes"`
	ResultsSum   uint32 `json:"results_sum"`
	// Index is the object of the index: blocks, then the list of them, then the buckets, then their list.
	Index      string `json:"index"`
	Items      int64  `json:"items"`
	Kept       int64  `json:"kept"` // of these, with a result
	Blocks     int64  `json:"blocks"`
	BlockBytes int64  `json:"block_bytes"`
	// BucketBits is how many first bits of a digest say which bucket it is in.
	BucketBits int `json:"bucket_bits"`
	// Wide: items in buckets take five bytes, and not four.
	Wide bool `json:"wide,omitempty"`
	// Gone is how many items with a result of the run before no item of this one has matched.
	Gone int64 `json:"gone,omitempty"`
	// ListsSum is the CRC-32C of the two lists.
	ListsSum uint32 `json:"lists_sum"`
}

// MeanResult is how many bytes a result takes on average, at least 1.
func (x *ReuseIndex) MeanResult() int64 { return x.ResultsBytes/max(1, x.Kept) + 1 }

// ReuseFormat is the number of the form of indexes.
const ReuseFormat = 1
