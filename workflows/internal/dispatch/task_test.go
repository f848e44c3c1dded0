package dispatch

import (
	"testing"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

func TestTask_Summary(t *testing.T) {
	t.Parallel()
	tests := []struct {
		task task
		want string
	}{
		{task{Task: wire.Task{Batch: wire.Batch{First: 12_000, Count: 1000}.Sealed(), Number: 12}}, "batch 12 · items 12,000–12,999"},
		{task{Task: wire.Task{Batch: wire.Batch{First: 5, Count: 1}.Sealed(), Number: 1}}, "batch 1 · item 5"},
		{task{Task: wire.Task{Batch: wire.Batch{First: 5, Count: 2}.Sealed(), Number: 1, Rests: 3}}, "batch 1 · items 5–6 · rest"},
		{task{Task: wire.Task{Batch: wire.Batch{First: 5, Count: 2}.Sealed(), Number: 1, Rests: 1, Tries: 2}}, "batch 1 · items 5–6 · rest · attempt 3"},
	}
	for _, test := range tests {
		require.Equal(t, test.want, test.task.summary())
	}
}
