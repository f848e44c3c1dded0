// Package callstest has a handler for tests of packages that make calls.
package callstest

import (
	"cmp"
	"slices"
	"sync"

	"github.com/stint-run/stint/internal/run/calls"
)

// Handler answers each item with itself unless a test sets something else. It is safe for concurrent use.
type Handler struct {
	As   calls.Traits
	Size calls.CallSize                       // default 100 items, 1 MiB
	Each func(c *calls.Call, item calls.Item) // answers one item; may leave the answer out if the batch ends
	Do   func(c *calls.Call) error            // answers them all; Each is then not used

	mu    sync.Mutex
	sizes []int
}

// Traits implements calls.Handler.
func (h *Handler) Traits() calls.Traits { return h.As }

// CallSize implements calls.Handler.
func (h *Handler) CallSize() calls.CallSize {
	return calls.CallSize{Items: cmp.Or(h.Size.Items, 100), Bytes: cmp.Or(h.Size.Bytes, 1<<20)}
}

// Call implements calls.Handler.
func (h *Handler) Call(c *calls.Call) error {
	h.mu.Lock()
	h.sizes = append(h.sizes, len(c.Items))
	h.mu.Unlock()
	if h.Do != nil {
		return h.Do(c)
	}
	if h.Each == nil {
		return Echo(c)
	}
	for _, item := range c.Items {
		h.Each(c, item)
	}
	return nil
}

// Sizes returns how many items each call so far had.
func (h *Handler) Sizes() []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.sizes)
}

// Calls returns how many calls there were so far.
func (h *Handler) Calls() int { return len(h.Sizes()) }

// Echo answers items with themselves.
func Echo(c *calls.Call) error {
	for _, item := range c.Items {
		c.Answer.Line(item.Data)
	}
	return nil
}
