package text_test

import (
	"testing"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stretchr/testify/require"
)

func TestCount(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"1 item": text.Count(1, "item"), "0 items": text.Count(0, "item"), "12,345 retries": text.Count(int64(12345), "retry"),
		"2 crashes": text.Count(2, "crash"), "1 batch": text.Count(1, "batch"), "2,000 batches": text.Count(2000, "batch"), "2 days": text.Count(2, "day"),
	} {
		require.Equal(t, want, got)
	}
}
