package activities

import (
	"context"

	"github.com/stint-run/stint/internal/wire"
)

// sink takes the outcomes of one batch, in the order of its items. One goroutine uses it.
//
// A part in the job's store is one implementation ([outputs.Part]), one for the next stage of a pipeline another ([stages.Part]). A small batch of a feed returns its results inline, in
// the answer of Process ([feeds.Sink]), and a slot of a loop writes a part about every ten seconds ([loops.Slot]). Nothing counts before the workflow has accepted the entry, so
// whatever an execution that failed has written is left to Finish to remove.
type sink interface {
	// At is the bytes of results so far: where the next result begins.
	At() int64
	// Results takes results, each a line with its end, of one or more items. lines is the sink's from
	// then on; it returns an empty buffer for the next ones.
	Results(ctx context.Context, lines []byte) (next []byte, err error)
	// Note takes a line about an item that has no result.
	Note(ctx context.Context, line wire.ErrorLine) error
	// Commit makes the outcomes durable and sets the sizes and checksums of the entry, which must be
	// complete but for those.
	Commit(entry *wire.Entry) error
	// Close frees what the sink holds, and gives up what is not committed. It is called once.
	Close()
}
