package calls

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// B13: What items have behind them survives its encoding, but for what is too much; a broken one is as good as none.
func TestTrials_Encode(t *testing.T) {
	t.Parallel()
	due := time.UnixMilli(time.Now().Add(time.Hour).UnixMilli())
	of := &Trials{}
	require.Nil(t, of.Encode(0))
	of.note(3, 1)
	of.note(10, 2)
	of.note(11, 2)
	of.set(500, Trial{Tries: 1, Waited: 90 * time.Second, Due: due})
	of.wait(501, time.Now().Add(-time.Minute))
	encoded := of.Encode(10)
	again := NewTrials(encoded, 10, 491)
	last := Trial{Tries: 1, Waited: 90 * time.Second, Due: due}
	require.Equal(t, map[int64]Trial{10: {Tries: 2}, 11: {Tries: 2}, 500: last}, again.of)
	require.Equal(t, encoded, again.Encode(10))
	require.Len(t, NewTrials(encoded, 10, 400).of, 2, "the batch has no such item")
	for i := range encoded {
		NewTrials(encoded[:i], 10, 491)
		broken := append([]byte{}, encoded...)
		broken[i] = 0xff
		require.LessOrEqual(t, len(NewTrials(broken, 10, 491).of), 491)
	}
	for i := range int64(100) { // of one call, whose batch is cut in its middle
		of.set(1000+i, Trial{Tries: 1, Waited: time.Minute, Due: due})
	}
	require.Equal(t, Trial{Tries: 1, Waited: time.Minute, Due: due}, NewTrials(of.Encode(1040), 1040, 60).Of(1040))
	require.Equal(t, Trial{Tries: 1, Waited: time.Minute, Due: due}, NewTrials(of.Encode(1040), 1040, 60).Of(1099))
	for i := range int64(100_000) {
		of.note(i, int(i%7))
	}
	require.LessOrEqual(t, len(of.Encode(0)), MaxTrials)
	require.Equal(t, 6, NewTrials(of.Encode(0), 0, 100_000).Of(6).Tries)
}
