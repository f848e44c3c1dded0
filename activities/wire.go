package activities

import (
	"github.com/stint-run/stint/internal/feeds"
	"github.com/stint-run/stint/internal/inputs"
	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/outputs"
	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/redrive"
	"github.com/stint-run/stint/internal/wire"
)

// What activities are given and return, besides the types that lie beside their methods. All of it
// becomes part of histories.
type (
	// Ref says which data a job run owns.
	Ref = ledger.Ref
	// Entry is one accepted execution of a batch.
	Entry = ledger.Entry
	// Books are a job's counts as its manifests add up to.
	Books = ledger.Books

	// Cursor is where in the input the next page begins.
	Cursor = inputs.Cursor
	// Sizing is what the coordinating workflow knows of the handler's speed.
	Sizing = inputs.Sizing
	// PlanInput asks for one page of batches.
	PlanInput = inputs.PlanInput
	// PlanResult is one page.
	PlanResult = inputs.PlanResult

	// FinishInput asks for a job's output.
	FinishInput = outputs.FinishInput
	// FinishResult says where the output is.
	FinishResult = outputs.FinishResult

	// PlanFeedInput asks for one page of batches of what earlier runs of a feed have left.
	PlanFeedInput = feeds.PlanInput
	// PlanFeedResult is one page, and where a feed begins.
	PlanFeedResult = feeds.PlanResult
	// CommitFeedInput is what a leg of a feed has come to.
	CommitFeedInput = feeds.CommitInput
	// FeedEntry is one accepted execution of a batch of a feed.
	FeedEntry = feeds.Entry
	// FeedRange is some items of a feed, of one session.
	FeedRange = feeds.Range
	// FeedItems is a FeedRange with its items.
	FeedItems = feeds.ItemRange
	// Inline is the outcomes of a small batch.
	Inline = ledger.Inline
	// Format is that of a feed's items.
	Format = records.Format
	// Outcome is what has become of one item.
	Outcome = ledger.Outcome

	// RedrivePlanInput asks for one page of batches of a redrive.
	RedrivePlanInput = redrive.PlanInput
	// RedriveFinishInput is what a redrive has come to.
	RedriveFinishInput = redrive.FinishInput
)

// DecodePage returns the batches of a page: see [inputs.DecodePage].
func DecodePage(page []byte) ([]wire.Batch, error) { return inputs.DecodePage(page) }

// PendingPiece returns a piece of what a leg of a feed has not committed: see [feeds.EncodePending].
func PendingPiece(all []CommitFeedInput, offset int) ([]byte, error) {
	if offset < 0 {
		return nil, nil
	}
	packed, err := feeds.EncodePending(all)
	return feeds.Piece(packed, offset), err
}

// OfFeed is what a leg with batches of a feed has not committed, as that of a leg which takes items.
func OfFeed(in CommitInput) CommitFeedInput {
	out := CommitFeedInput{Ref: in.Ref, Leg: in.Leg, Previous: in.Previous}
	for _, e := range in.Entries {
		out.Entries = append(out.Entries, FeedEntry{Entry: e})
	}
	return out
}
