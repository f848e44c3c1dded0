package ledger

import (
	"context"
	"io"
	"iter"

	"github.com/stint-run/stint/internal/store"
)

// Access opens stores and inputs: a [store.Access], or one that is simulated. It is safe for concurrent use.
type Access interface {
	Open(ctx context.Context, location string) (store.Dir, error)
	Expand(ctx context.Context, args []string) iter.Seq2[store.Input, error]
	StatInput(ctx context.Context, url string) (store.Info, error)
	OpenInput(ctx context.Context, url string, offset, length int64) (io.ReadCloser, error)
}
