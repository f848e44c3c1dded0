package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ended lets batches end that were started by so many slots one after the other.
func (p *pace) ended(batches, slots int, took time.Duration) {
	start := max(p.latest, 1_000_000)
	for i := range batches {
		p.landed(start+int64(i/slots+1)*took.Milliseconds(), took)
	}
}

func TestPace_Length(t *testing.T) {
	t.Parallel()
	const took = 100 * time.Millisecond // of a batch
	for _, c := range []struct {
		name         string
		slots        int
		flying, sent int
		more         bool
		least, most  time.Duration
	}{
		{"two slots, a full queue", 2, 64, 2, true, 900 * time.Millisecond, 1050 * time.Millisecond},
		{"nothing is sent, all wait", 2, 64, 0, true, 900 * time.Millisecond, 1100 * time.Millisecond},
		{"one slot", 1, 64, 1, true, 1900 * time.Millisecond, 2100 * time.Millisecond},
		{"slots for all", 64, 64, 10, true, 0, 0},
		{"all that flies was sent just now", 2, 20, 20, true, 0, 0},
		{"the end: two thirds of what is left", 2, 32, 0, false, 850 * time.Millisecond, 1000 * time.Millisecond},
		{"the end, and another leg follows", 2, 32, 0, true, 400 * time.Millisecond, 550 * time.Millisecond},
		{"the very end", 2, 3, 0, false, 0, 0},
		{"the last ones must leave", 2, 32, 30, false, 0, 0},
		{"a window of a thousand", 2, 1000, 5, true, 1850 * time.Millisecond, maxEnds * 51 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var p pace
			p.ended(40, c.slots, took)
			p.sent = c.sent
			got := p.length(c.flying, c.more)
			require.GreaterOrEqual(t, got, c.least)
			require.LessOrEqual(t, got, c.most)
		})
	}
}

// Nothing is known before two batches have ended.
func TestPace_Unknown(t *testing.T) {
	t.Parallel()
	var p pace
	require.Zero(t, p.length(64, true))
	p.landed(1_000_000, time.Second)
	require.Zero(t, p.length(64, true))
	p.landed(1_000_000, time.Second)
	require.Zero(t, p.length(64, true), "started at once: there are many slots")
	p.landed(1_001_000, time.Second)
	require.Positive(t, p.length(64, true))
}

// The pace follows the handler within some dozens of batches, and idle slots do not slow it down.
func TestPace_Follows(t *testing.T) {
	t.Parallel()
	var p pace
	p.ended(100, 2, 10*time.Second)
	slow := p.length(64, true)
	p.ended(100, 2, 10*time.Millisecond)
	require.Less(t, p.length(64, true), slow/50)

	p = pace{}
	p.ended(1, 2, 10*time.Millisecond)
	p.latest += time.Hour.Milliseconds() // nothing was there to do
	p.ended(8, 2, 10*time.Millisecond)
	require.LessOrEqual(t, p.length(64, true), 21*10*time.Millisecond)
}
