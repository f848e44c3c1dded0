package calls

import (
	"sync/atomic"

	"github.com/stint-run/stint/internal/protocol"
)

// LeftCall is a call of user's code in this process that has ignored its cancelled context and was left behind. Nothing can end it.
type LeftCall struct {
	Place protocol.Place // where it was made

	returned *atomic.Bool
}

// Returned reports whether it has returned meanwhile. Any goroutine may call it.
func (l LeftCall) Returned() bool { return l.returned.Load() }

// leaveBehind reports a call that is left behind.
func (m *Watch) leaveBehind(place protocol.Place, returned *atomic.Bool) {
	if m.limits.Left != nil {
		m.limits.Left(LeftCall{place, returned})
	}
}
