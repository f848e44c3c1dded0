package ledger

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// Results, failures and dropped items in any mix come back in order, and over JSON.
func TestInline_Outcomes(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		var in wire.Inline
		var want []wire.Outcome
		for n := range rng.IntN(20) {
			at := int64(len(in.Results))
			switch rng.IntN(4) {
			case 0:
				f := job.Failure{Item: int64(n), Input: json.RawMessage("null"), Kind: job.KindError, Error: job.Error{Message: "no"}}
				in.Notes = append(in.Notes, wire.ErrorLine{At: at, Failure: f})
				want = append(want, wire.Outcome{Failure: &f})
			case 1:
				in.Notes = append(in.Notes, DroppedLine(at))
				want = append(want, wire.Outcome{})
			case 2:
				in.Results = append(in.Results, '\n')
				want = append(want, wire.Outcome{Result: []byte{}})
			default:
				line := fmt.Appendf(nil, "{%d}", n)
				in.Results = append(append(in.Results, line...), '\n')
				want = append(want, wire.Outcome{Result: line})
			}
		}
		data, err := json.Marshal(in)
		require.NoError(t, err)
		var sent wire.Inline
		require.NoError(t, json.Unmarshal(data, &sent))
		got, err := sent.Outcomes(int64(len(want)))
		require.NoError(t, err)
		require.Equal(t, want, append([]wire.Outcome(nil), got...))
		_, err = sent.Outcomes(int64(len(want)) + 1)
		require.Error(t, err)
		if len(want) > 0 {
			_, err = sent.Outcomes(int64(len(want)) - 1)
			require.Error(t, err)
		}
	}
}
