package worker

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// H3: what calls say that they have used is counted, to the token, also that of items which fail.
func showsCosts(tr *trial) {
	items := several(12)
	var want job.Usage
	for n := range 40 {
		item := fmt.Sprintf("spend %d", 3+n)
		want.Add(spentOn(item))
		items = append(items, item, "error no")
	}
	require.Equal(tr.t, want, tr.obey(items...).totals.Usage)
}

func TestCost_OutsideOfACall(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, Cost(t.Context(), job.Usage{TokensIn: 1}), calls.ErrNoCall)
	for _, bad := range []job.Usage{{TokensIn: -1}, {TokensOut: -1}, {TokensCached: -1}, {Cost: -1}} {
		require.ErrorContains(t, Cost(t.Context(), bad), "use numbers from 0 on")
	}
}

// A call that fails as a whole has used what it says, each time that it is made.
func TestCost_OfFailedCalls(t *testing.T) {
	t.Parallel()
	f := setup(t)
	o := f.run(Batch(func(ctx context.Context, items []string) ([]string, error) {
		if err := Cost(ctx, job.Usage{TokensIn: 10}); err != nil {
			return nil, err
		}
		return nil, errors.New("no")
	}), "in.txt", lines("a"))
	require.Len(t, o.failures, 1)
	require.Equal(t, job.Usage{TokensIn: 30}, o.totals.Usage, "three attempts")
}
