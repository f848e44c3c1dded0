package calls

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A call has so many items at once only if it is known to end in time.
func TestPace_Fits(t *testing.T) {
	t.Parallel()
	p := Pace{Target: 5 * time.Second, First: 1000, Most: 100_000}
	require.False(t, p.Fits(1, 0), "nothing is known")
	p.Learn(1000, time.Second)
	require.True(t, p.Fits(5000, 0))
	require.False(t, p.Fits(5001, 0))
	require.True(t, p.Fits(5000, time.Minute))
	require.True(t, p.Fits(1000, 2*time.Second))
	require.False(t, p.Fits(1001, 2*time.Second))
}
