package coordinate

import (
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// Temporal may deliver signals in another order than they were sent in: what is older changes nothing.
func TestSignals_Overtaken(t *testing.T) {
	t.Parallel()
	at := func(seconds int) job.Counted { return job.Counted{At: time.Unix(int64(seconds), 0)} }
	l := &OpenLeg{}
	l.Hear(wire.Counts{OK: 5, Sofar: at(2)})
	l.Hear(wire.Counts{OK: 3, Sofar: at(1), Answer: true})
	require.Equal(t, int64(5), l.Reported.OK)
	require.True(t, l.Answered, "an answer is one")
	l.Hear(wire.Counts{OK: 9, Sofar: at(3), Final: true})
	l.Hear(wire.Counts{OK: 8, Sofar: at(3)})
	require.Equal(t, int64(9), l.Reported.OK)
}
