package ledger

import (
	"context"

	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
)

// maxRemade is how many entries one of the [Remade] manifests has at most.
const maxRemade = 1000

// Remade writes the manifests of a state that is made from another one: of entries in their order, each manifest naming
// the one before it. Their keys depend only on their number, so that a repetition writes the same. One goroutine may use
// it.
type Remade struct {
	Dir store.Dir
	Ref wire.Ref // its sources are those of the state
	Key func(n int) string

	// Heads are those of the chain, after Flush.
	Heads []string

	entries []wire.Entry // of the next manifest
	written int          // manifests
}

// Add lists an entry.
func (r *Remade) Add(ctx context.Context, e wire.Entry) error {
	r.entries = append(r.entries, e)
	if len(r.entries) < maxRemade {
		return nil
	}
	return r.Flush(ctx)
}

// Pass lists an entry whose part stays where it is.
func (r *Remade) Pass(ctx context.Context, e OwnedEntry) error {
	e.Run = e.Owner
	return r.Add(ctx, e.Entry)
}

// Flush writes what has been added.
func (r *Remade) Flush(ctx context.Context) error {
	if len(r.entries) == 0 {
		return nil
	}
	key := r.Key(r.written)
	if err := PutManifest(ctx, r.Dir, key, r.Ref, 0, r.Heads, r.entries, wire.Besides{}); err != nil {
		return err
	}
	r.written++
	r.Heads, r.entries = []string{key}, r.entries[:0]
	return nil
}
