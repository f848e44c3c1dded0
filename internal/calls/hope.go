package calls

import "sync/atomic"

// Hope counts what shows that a handler cannot work, over all lanes of one execution of a batch: items that failed in calls
// of themselves alone, before any item of the job has succeeded. It is safe for concurrent use.
type Hope struct {
	limit  int64
	alone  atomic.Int64
	worked atomic.Bool
}

// NewHope returns a Hope that is lost with so many such items; 0: never.
func NewHope(limit int64) *Hope { return &Hope{limit: limit} }

// succeeded notes that an item has succeeded.
func (h *Hope) succeeded() {
	if h != nil {
		h.worked.Store(true)
	}
}

// failed notes an item that failed alone, and reports whether hope is lost.
func (h *Hope) failed() (lost bool) {
	if h == nil {
		return false
	}
	n := h.alone.Add(1)
	return h.limit > 0 && n >= h.limit && !h.worked.Load()
}
