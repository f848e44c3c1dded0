package predict

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

func taken(t *testing.T, spec job.Spec, stdin string) Survey {
	t.Helper()
	s, err := TakeSurvey(t.Context(), &store.Access{}, spec.WithDefaults(), strings.NewReader(stdin))
	require.NoError(t, err)
	return s
}

func TestSurvey_Counts(t *testing.T) {
	t.Parallel()
	f := setup(t, "a.jsonl", jobtest.Lines(1000), "b.csv", "n\n1\n2\n", "empty.txt", "\n")
	f.spec.BatchItems = 10
	s := taken(t, f.spec, "")
	require.Equal(t, 3, s.Inputs)
	require.EqualValues(t, 1003, s.Items, "an empty line of a text is an item")
	require.EqualValues(t, len(jobtest.Lines(1000))+len("1\n2\n\n"), s.Bytes)
	require.EqualValues(t, 102, s.Batches)
	require.EqualValues(t, 2, s.Legs)
	require.EqualValues(t, len(f.plan()), s.Batches, "as many as are planned")
}

func TestSurvey_SmallAndEmpty(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(5))
	f.spec.BatchItems = 1
	s := taken(t, f.spec, "")
	require.EqualValues(t, 5, s.Batches)
	require.EqualValues(t, 1, s.Legs, "run by the job itself")

	f = setup(t, "in.jsonl", "")
	s = taken(t, f.spec, "")
	require.Zero(t, s.Items)
	require.Zero(t, s.Batches)
	require.Zero(t, s.Legs)
	require.Positive(t, s.Events, "the job's own")
}

// It writes nothing: not into the store, not beside the output.
func TestSurvey_LeavesNoTrace(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl.gz", "")
	f.spec.Files.Input = []string{f.write("in.txt", "1\n2\n3\n"), "-"}
	s := taken(t, f.spec, "\uFEFF4\n\n5\n")
	require.EqualValues(t, 6, s.Items)
	require.NoDirExists(t, f.spec.Store)
	temporaries, err := filepath.Glob(f.path(".*"))
	require.NoError(t, err)
	require.Empty(t, temporaries)
}

func TestSurvey_ManyLegs(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.txt", strings.Repeat("1\n", wire.FirstPage+2*wire.PageBatches+1))
	f.spec.BatchItems = 1
	s := taken(t, f.spec, "")
	require.EqualValues(t, 4, s.Legs)
	require.EqualValues(t, wire.FirstPage+2*wire.PageBatches+1, s.Batches)
	perBatch := float64(s.Events) / float64(s.Batches)
	require.InDelta(t, 5.2, perBatch, 0.1)
	require.InDelta(t, 1, float64(s.Actions)/float64(s.Batches), 0.05)
}

func TestSurvey_Fails(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.spec.Files.Input = []string{f.path("none.txt")}
	_, err := TakeSurvey(t.Context(), &store.Access{}, f.spec, nil)
	jobtest.RequireType(t, err, job.ErrorInput)
	f.spec.Files.Input = []string{"-"}
	_, err = TakeSurvey(t.Context(), &store.Access{}, f.spec, nil)
	jobtest.RequireType(t, err, job.ErrorInput)
}
