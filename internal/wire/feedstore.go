package wire

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/stint-run/stint/job"
)

// SalvageFeedInput names a leg of a feed whose job Temporal has ended.
type SalvageFeedInput struct {
	Workflow string `json:"workflow"`
	Run      string `json:"run"`
}

// SalvageFeedResult names the manifests that account for what the leg had accepted.
type SalvageFeedResult struct {
	Manifests []string `json:"manifests"`
	// Gone: the server has removed the leg's history, so that nothing is known of it.
	Gone bool `json:"gone,omitempty"`
}

// CommitFeedInput is what a leg of a feed has come to: the executions that count, the items that were discarded, and,
// of a feed that has stopped, those that have no outcome. Their ranges do not overlap. As a payload it has at most 2
// MB: a leg splits what is more over several commits, each of which names the one before.
type CommitFeedInput struct {
	Ref      Ref      `json:"ref"`
	Leg      int      `json:"leg"`
	Previous []string `json:"previous,omitempty"`
	// Accepted is how many items the feed had accepted: see [Besides]. 0: not known.
	Accepted int64 `json:"accepted,omitempty"`
	// Entries come in any order.
	Entries    []FeedEntry `json:"entries,omitempty"`
	Discarded  []FeedRange `json:"discarded,omitempty"`
	Unfinished []FeedItems `json:"unfinished,omitempty"`
	Format     Format      `json:"format,omitempty"` // of Unfinished: see [job.Spec]
}

// Empty reports that there is nothing to commit.
func (in *CommitFeedInput) Empty() bool {
	return len(in.Entries)+len(in.Discarded)+len(in.Unfinished) == 0
}

// FeedEntry is one accepted execution of a batch of a feed. If no part has its outcomes, Inline has them.
type FeedEntry struct {
	Entry
	Inline *Inline `json:"i,omitempty"`
}

// FeedRange is some items of a feed, of one session.
type FeedRange struct {
	First   int64 `json:"f"`
	Count   int64 `json:"n"`
	Session int64 `json:"g,omitempty"`
}

// FeedItems is a [FeedRange] with its items, values in JSON.
type FeedItems struct {
	First   int64 `json:"f"`
	Items   Items `json:"i"`
	Session int64 `json:"g,omitempty"`
}

// End returns the ordinal after the last item.
func (r *FeedItems) End() int64 { return r.First + int64(len(r.Items)) }

// PlanFeedInput asks for a page of batches of what earlier runs of a feed have left.
type PlanFeedInput struct {
	Ref  Ref      `json:"ref"` // Sources is empty for the first page
	Spec job.Spec `json:"spec"`
	// Resume are heads of the manifests of earlier runs. Without any the feed is new.
	Resume []string `json:"resume,omitempty"`
	// From is where the page begins: Next of the page before.
	From Cursor `json:"from"`
	// Batches is the most batches of the page: 1 … 600.
	Batches int `json:"batches"`
	// Accepted is how many ordinals the earlier runs have given, as far as that is known from elsewhere: 0 if it is
	// not.
	Accepted int64 `json:"accepted,omitempty"`
	// Sizing is what is known of the pool: what is left is spread over its slots.
	Sizing Sizing `json:"sizing,omitzero"`
}

// PlanFeedResult is one page. A new feed has nothing left: its only page is empty.
type PlanFeedResult struct {
	// Total is 0, Resumed without bytes. After the last page Next.Item is Accepted.
	PlanResult
	// Accepted is the first ordinal that has never been given, on each page.
	Accepted int64 `json:"accepted,omitempty"`

	// Only the first page has these: how many items are left over all pages, how many earlier runs have discarded, and
	// the last session that they have begun, as far as the store shows it; 0: none.
	Unfinished int64 `json:"unfinished,omitempty"`
	Discarded  int64 `json:"discarded,omitempty"`
	Session    int64 `json:"session,omitempty"`
	// Lost is how many of the items that earlier runs had accepted are in no object of the store, and FirstError the
	// first of them; Resumed counts them as failed. Heads, if there are any, are what Resume is from now on: manifests
	// that have these, or that nobody knew of. First page only.
	Lost       int64           `json:"lost,omitempty"`
	FirstError *job.FirstError `json:"first_error,omitempty"`
	Heads      []string        `json:"heads,omitempty"`
	// Closed means that an earlier run had closed the feed, and may have published its output: it takes no more items,
	// and Finish is left to do. First page only.
	Closed bool `json:"closed,omitempty"`
}

// What a leg of a feed has not committed, for a job that goes on after Temporal has ended it, may be more than fits
// into a message, and each question for it has the leg's whole history replayed. So it is compressed, and given in as
// few pieces as possible.

const (
	// pieceBytes is the most that one answer carries: Temporal's limit for a message is 2 MB.
	pieceBytes = 1800 << 10
	// maxPending bounds what pieces are decompressed to: some ten times what a history may hold.
	maxPending = 512 << 20
)

// encodePending returns what is to be committed in compressed form. It returns the same bytes each time.
func encodePending(all []CommitFeedInput) ([]byte, error) {
	var packed bytes.Buffer
	zip, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		return nil, fmt.Errorf("compressing: %w", err)
	}
	if err := errors.Join(json.NewEncoder(zip).Encode(all), zip.Close()); err != nil {
		return nil, fmt.Errorf("encoding what is not committed: %w", err)
	}
	return packed.Bytes(), nil
}

// pieceOf returns the part of an encoded list that begins at an offset; empty: there is none.
func pieceOf(packed []byte, offset int) []byte {
	if offset < 0 || offset >= len(packed) {
		return nil
	}
	return packed[offset:min(len(packed), offset+pieceBytes)]
}

// PendingPiece is one piece of what is to be committed, from an offset; empty: there is none.
func PendingPiece(all []CommitFeedInput, offset int) ([]byte, error) {
	if offset < 0 {
		return nil, nil
	}
	packed, err := encodePending(all)
	return pieceOf(packed, offset), err
}

// DecodePending asks for all pieces, by their offsets, and returns what they hold.
func DecodePending(ask func(offset int) ([]byte, error)) ([]CommitFeedInput, error) {
	var packed []byte
	for {
		piece, err := ask(len(packed))
		if err != nil {
			return nil, err
		}
		packed = append(packed, piece...)
		if len(piece) < pieceBytes {
			break
		}
	}
	if len(packed) == 0 {
		return nil, nil
	}
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("decompressing what was not committed: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(zip, maxPending+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("decompressing what was not committed: %w", err)
	case len(data) > maxPending:
		return nil, fmt.Errorf("what was not committed has more than %d bytes", maxPending)
	}
	var all []CommitFeedInput
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("reading what was not committed: %w", err)
	}
	return all, nil
}

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

// FeedResize changes the size of batches. Signals may come in another order than they were sent in: the one with the
// highest number counts.
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

// StalledNotice is what the leg that takes items reports of a feed in which nothing finishes, and when something has
// again.
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
	// Began is the session that this run of the feed has begun with, Counted the outcomes of the present one in legs
	// that have ended.
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
	// Unfinished items of the legs before and of earlier runs, and the bytes of the former: they take a part of the
	// capacity.
	Unfinished int   `json:"unfinished,omitempty"`
	Bytes      int64 `json:"bytes,omitempty"`
	// Freed is what legs that were sealed had freed when the unfinished items were counted, as far as was known.
	Freed Freed `json:"freed,omitzero"`
}

// Freed is capacity that has become free, in total since something. Totals only grow, so they may come late, again, or
// in any order.
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
