package calls

import (
	"cmp"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a handler. It answers each item with itself unless a test sets something else.
type fake struct {
	traits Traits
	size   CallSize                 // default 100 items
	each   func(c *Call, item Item) // answers one item; may leave the answer out if the batch ends
	call   func(c *Call) error      // answers them all; each is then not used

	mu    sync.Mutex
	sizes []int // of the calls so far
}

func (h *fake) Traits() Traits { return h.traits }

func (h *fake) CallSize() CallSize {
	size := h.size
	return CallSize{Items: cmp.Or(size.Items, 100), Bytes: cmp.Or(size.Bytes, 1<<20)}
}

func (h *fake) Call(c *Call) error {
	h.mu.Lock()
	h.sizes = append(h.sizes, len(c.Items))
	h.mu.Unlock()
	if h.call != nil {
		return h.call(c)
	}
	for _, item := range c.Items {
		if h.each == nil {
			c.Answer.Line(item.Data)
			continue
		}
		h.each(c, item)
	}
	return nil
}

func (h *fake) calls() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.sizes)
}

// echo answers items with themselves.
func echo(c *Call) error {
	for _, item := range c.Items {
		c.Answer.Line(item.Data)
	}
	return nil
}
