package wire

import (
	"time"

	"github.com/stint-run/stint/job"
)

// FeedLegInput is what one leg of a feed begins with.
type FeedLegInput struct {
	Ref  Ref      `json:"ref"`
	Spec job.Spec `json:"spec"`
	LegState
	// Opening is set for a leg that takes items at once. The others stand by, until the leg before them opens them.
	Opening  *FeedOpening `json:"opening,omitempty"`
	Previous []string     `json:"previous,omitempty"` // manifests that the leg's first manifest names
	Version  int          `json:"version,omitempty"`  // see wire.LogicVersion
}

// FeedOpening is what a leg of a feed must know to take items.
type FeedOpening struct {
	Opening
	Batches int64 `json:"batches,omitempty"` // of the feed so far
}

// FeedResize changes the size of batches. Signals may come in another order than they were sent in: the one with the highest number counts.
type FeedResize struct {
	Number int   `json:"n"`
	Items  int64 `json:"items"` // 0: automatic
}

// SealedNotice is what a leg reports that has been sealed.
type SealedNotice struct {
	Leg  int   `json:"leg"`
	Next int64 `json:"next"` // items that the feed has accepted
}

// FreedNotice is how much capacity a leg has freed since it was sealed.
type FreedNotice struct {
	Leg   int   `json:"leg"`
	Total Freed `json:"total"`
}

// StalledNotice is what the leg that takes items reports of a feed in which nothing finishes, and when something has again.
type StalledNotice struct {
	Leg   int       `json:"leg"`
	Since time.Time `json:"since,omitzero"` // zero: the feed moves again
	At    time.Time `json:"at"`             // when it was sent
	// Feed is how the feed stands.
	Feed *job.FeedReport `json:"feed,omitempty"`
}

// FeedWorkState is what a feed carries from one run of its job to the next.
type FeedWorkState struct {
	Planned  bool  `json:"planned"` // what earlier runs have left
	Accepted int64 `json:"accepted,omitempty"`
	Session  int64 `json:"session,omitempty"`
	Wanted   int   `json:"wanted"`         // legs that should be started
	Latest   int   `json:"latest"`         // leg that was started last; 0: none
	Open     int   `json:"open,omitempty"` // leg that takes items
	Segments int   `json:"segments,omitempty"`
	Resized  int   `json:"resized,omitempty"` // how often the batches of open legs were to get another size
	Closing  bool  `json:"closing,omitempty"`
	// Stalled is since when nothing has finished, although items are unfinished; zero: it is not so.
	Stalled   time.Time `json:"stalled,omitzero"`
	StallSeen time.Time `json:"stall_seen,omitzero"` // when the leg has said so, or that it moves again
	Earlier   Earlier   `json:"earlier,omitzero"`
	// Lost and Gone are those of [job.FeedReport].
	Lost int64    `json:"lost,omitempty"`
	Gone []string `json:"gone,omitempty"`
	// Freed is the capacity that sealed legs have freed, and items of earlier runs: all together.
	Freed Freed `json:"freed,omitzero"`
	// Began is the session that this run of the feed has begun with, Counted the outcomes of the present one in legs that have ended.
	Began   int64  `json:"began,omitempty"`
	Counted Counts `json:"counted,omitzero"`
}

// KeptResult is what a leg has done in its runs so far, which no later run can lose.
type KeptResult struct {
	Leg    int       `json:"leg"`
	Result LegResult `json:"result"`
}

// Opening is what a leg must know to take items: it follows the last one that did.
type Opening struct {
	First   int64 `json:"first"` // ordinal of the next item
	Session int64 `json:"session"`
	// Unfinished items of the legs before and of earlier runs, and the bytes of the former: they take a part of the capacity.
	Unfinished int   `json:"unfinished,omitempty"`
	Bytes      int64 `json:"bytes,omitempty"`
	// Freed is what legs that were sealed had freed when the unfinished items were counted, as far as was known.
	Freed Freed `json:"freed,omitzero"`
}

// Freed is capacity that has become free, in total since something. Totals only grow, so they may come late, again, or in any order.
type Freed struct {
	Items int   `json:"items"`
	Bytes int64 `json:"bytes"`
}

// Grow raises f to a later total, and returns by how much.
func (f *Freed) Grow(total Freed) (more Freed) {
	more = Freed{Items: max(0, total.Items-f.Items), Bytes: max(0, total.Bytes-f.Bytes)}
	f.Add(more)
	return more
}

// Add adds more to f.
func (f *Freed) Add(more Freed) {
	f.Items += more.Items
	f.Bytes += more.Bytes
}
