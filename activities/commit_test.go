package activities

import (
	"context"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

func someEntries(n int64) (all []wire.Entry) {
	for i := range n {
		all = append(all, wire.Entry{Batch: wire.Batch{Offset: 20 * i, Length: 20, First: 2 * i, Count: 2}.Sealed(), Part: ledger.NewToken(), OK: 2})
	}
	return all
}

func TestCommit(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.ref.Sources = "run-1/sources-x.json"
	all := someEntries(5)
	in := wire.CommitInput{Ref: f.ref, Leg: 7, Previous: []string{"run-1/manifests/before.jsonl"}, Entries: jobtest.Shuffled(jobtest.Seeded(t, 5), all)}
	first, err := f.acts.Commit(t.Context(), in)
	require.NoError(t, err)
	second, err := f.acts.Commit(t.Context(), in)
	require.NoError(t, err)
	require.NotEqual(t, first.Manifest, second.Manifest, "a repetition writes its own object")
	require.True(t, strings.HasPrefix(first.Manifest, "run-1/manifests/"))

	head, err := ledger.ReadHead(t.Context(), f.store(), first.Manifest)
	require.NoError(t, err)
	require.Equal(t, wire.Head{
		Run: "run-1", Leg: 7, Sources: f.ref.Sources, Previous: in.Previous, First: all[0].First, End: all[4].End(), Entries: 5, Row: 1,
	}, head)
}

func TestCommit_Fails(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("out.jsonl.stint", "a file in the place of the store")
	_, err := f.acts.Commit(t.Context(), wire.CommitInput{Ref: f.ref, Entries: someEntries(1)})
	jobtest.RequireType(t, err, job.ErrorOutput)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f = setup(t)
	_, err = f.acts.Commit(ctx, wire.CommitInput{Ref: f.ref, Entries: someEntries(1)})
	require.ErrorIs(t, err, context.Canceled)
}
