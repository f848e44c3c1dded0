package wire

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is not committed comes back as it was, in as few pieces as it takes: one for texts of megabytes.
func TestPending(t *testing.T) {
	t.Parallel()
	backlog := func(bytes int, of func() byte) []CommitFeedInput {
		in := CommitFeedInput{Leg: 3, Previous: []string{"m"}}
		for first := int64(0); bytes > 0; first++ {
			item := make([]byte, 1000)
			for i := range item {
				item[i] = of()
			}
			item[0], item[len(item)-1] = '"', '"'
			in.Unfinished = append(in.Unfinished, FeedItems{First: first, Items: []json.RawMessage{item}, Session: 1})
			bytes -= len(item)
		}
		return []CommitFeedInput{in}
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	words := []byte("the quick brown fox <jumps> over the lazy dog, ")
	n := 0
	for _, c := range []struct {
		name   string
		in     []CommitFeedInput
		pieces int
	}{
		{"none", nil, 1},
		{"text", backlog(4<<20, func() byte { n++; return words[n*n%len(words)] }), 1},
		{"noise", backlog(4<<20, func() byte { return byte('0'+rng.IntN(10)) + byte(rng.IntN(2))*('a'-'0') }), 3},
	} {
		packed, err := encodePending(c.in)
		require.NoError(t, err, c.name)
		asked := 0
		back, err := DecodePending(func(offset int) ([]byte, error) {
			asked++
			return pieceOf(packed, offset), nil
		})
		require.NoError(t, err, c.name)
		require.Equal(t, c.in, back, c.name)
		require.LessOrEqual(t, asked, c.pieces, "%s, of %d bytes", c.name, len(packed))
		require.Nil(t, pieceOf(packed, -1))
	}

	packed, err := encodePending(backlog(2000, func() byte { return 'x' }))
	require.NoError(t, err)
	for _, broken := range [][]byte{packed[:len(packed)-3], {1, 2, 3}, append([]byte{}, append(packed[:len(packed)-5], 0, 0, 0, 0, 0)...)} {
		_, err = DecodePending(func(int) ([]byte, error) { return broken, nil })
		require.Error(t, err)
	}
	_, err = DecodePending(func(int) ([]byte, error) { return nil, errors.New("away") })
	require.ErrorContains(t, err, "away")
}
