package activities

import (
	"context"
	"encoding/json"

	"github.com/stint-run/stint/internal/inputs"
	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/job"
)

type CommitFeedInput struct {
	Ref        ledger.Ref  `json:"ref"`
	Leg        int         `json:"leg"`
	Previous   []string    `json:"previous,omitempty"`
	Entries    []FeedEntry `json:"entries,omitempty"`
	Discarded  []FeedRange `json:"discarded,omitempty"`
	Unfinished []FeedItems `json:"unfinished,omitempty"`
	Format     string      `json:"format,omitempty"`
}
type FeedEntry struct {
	ledger.Entry
	Session int64          `json:"g,omitempty"`
	Inline  *ledger.Inline `json:"i,omitempty"`
}
type FeedRange struct {
	First   int64 `json:"f"`
	Count   int64 `json:"n"`
	Session int64 `json:"g,omitempty"`
}
type FeedItems struct {
	First   int64             `json:"f"`
	Items   []json.RawMessage `json:"i"`
	Session int64             `json:"g,omitempty"`
}

func (a *Activities) CommitFeed(ctx context.Context, in CommitFeedInput) (CommitResult, error) {
	panic("tmp")
}

type PlanFeedInput struct {
	Ref      ledger.Ref    `json:"ref"`
	Spec     job.Spec      `json:"spec"`
	Resume   []string      `json:"resume,omitempty"`
	From     inputs.Cursor `json:"from"`
	Batches  int           `json:"batches"`
	Accepted int64         `json:"accepted,omitempty"`
}
type PlanFeedResult struct {
	inputs.PlanResult
	Accepted   int64 `json:"accepted,omitempty"`
	Unfinished int64 `json:"unfinished,omitempty"`
	Discarded  int64 `json:"discarded,omitempty"`
	Session    int64 `json:"session,omitempty"`
}

func (a *Activities) PlanFeed(ctx context.Context, in PlanFeedInput) (PlanFeedResult, error) {
	panic("tmp")
}

// Plain is the input of Commit that records the same entries.
func (in CommitFeedInput) Plain() CommitInput {
	plain := CommitInput{Ref: in.Ref, Leg: in.Leg, Previous: in.Previous}
	for _, e := range in.Entries {
		plain.Entries = append(plain.Entries, e.Entry)
	}
	return plain
}
