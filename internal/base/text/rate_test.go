package text

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// 14.3: rates have two digits.
func TestRate(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0", 0.0123: "0.012", 0.5: "0.50", 1: "1.0", 9.96: "10", 12.3: "12", 99.6: "100", 123: "120", 1_234.5: "1,200", 98_765: "99,000",
	} {
		require.Equal(t, want, Rate(v), fmt.Sprint(v))
	}
}
