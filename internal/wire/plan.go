package wire

import (
	"io/fs"
	"time"

	"github.com/stint-run/stint/job"
)

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
	// Perm are the access rights that all inputs grant: see [Ref].
	Perm fs.FileMode `json:"perm,omitempty"`
	// Worker has planned it, and can run so much.
	Worker   string   `json:"worker,omitempty"`
	Capacity Capacity `json:"capacity,omitzero"`
}

// Sizing is what the coordinating workflow knows of the handler's speed and of the pool.
type Sizing struct {
	// Rate is the items that one slot handles in 1,000 seconds of wall time; 0 while it is unknown.
	Rate int64 `json:"rate,omitempty"`
	// Slots are those of all known workers of the pool, Concurrency the calls that each makes at once; 0: not known.
	Slots       int `json:"slots,omitempty"`
	Concurrency int `json:"concurrency,omitempty"`
}
