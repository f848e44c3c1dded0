package calls

import (
	"fmt"
	"testing"

	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// Outcomes that items have before any call come into the answer in the order of the items, however often it is filled,
// up to the first item that has none.
func TestAnswer_Fill(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		random := jobtest.Seeded(t, seed)
		live := &Live{}
		answer := &Answer{Live: live}
		var items []Item
		var want []string
		dropped := &records.Outcome{}
		open := false // an item without an outcome has come
		fills := func() {
			answer.Fill(items)
			if random.IntN(2) == 0 {
				answer.Fill(items)
			}
		}
		for i := range 1 + random.IntN(20) {
			item := Item{Ordinal: int64(i)}
			text := fmt.Sprint(i)
			switch kind := random.IntN(8); {
			case kind == 0:
				item.Outcome, text = &records.Outcome{Value: []byte(text)}, text+" known"
			case kind == 1:
				item.Outcome, text = &records.Outcome{Failure: &job.Failure{Kind: job.KindCrash, Attempts: i}}, fmt.Sprint("failed ", i, " known")
			case kind == 2:
				item.Outcome, text = dropped, "dropped known" // they may share it
			case open:
			case kind == 3:
				answer.Drop()
				text = "dropped"
			case kind == 4:
				answer.Fail(&Fault{Kind: job.KindError}, i)
				text = fmt.Sprint("failed ", i)
			case kind == 5:
				open = true
			default:
				answer.Line([]byte(text))
			}
			if !open {
				want = append(want, text)
			}
			items = append(items, item)
			if random.IntN(4) == 0 {
				fills()
			}
		}
		fills()
		var got []string
		answered := int64(len(want))
		answer.Each(func(o Span) {
			text := string(answer.Bytes(o))
			switch {
			case o.Fault != nil:
				text = fmt.Sprint("failed ", o.Tries)
			case o.Drop:
				text = "dropped"
			default:
				text = text[:len(text)-1]
			}
			if o.Known != nil {
				require.Same(t, items[len(got)].Outcome, o.Known)
				text += " known"
			}
			got = append(got, text)
		})
		require.Equal(t, want, got, "seed %d", seed)
		require.Equal(t, len(want), answer.Count)
		done, _ := live.Counts()
		require.Equal(t, answered, done, "seed %d", seed)
	}
}
