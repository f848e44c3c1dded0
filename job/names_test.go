package job

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckName(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, value, problem string
	}{
		{"plain", "nightly", ""},
		{"digits and dashes", "2026-11-21", ""},
		{"one byte", "a", ""},
		{"dash at the end", "a-", ""},
		{"longest", strings.Repeat("a", MaxName), ""},
		{"too long", strings.Repeat("a", MaxName+1), "201 bytes long: at most 200"},
		{"empty", "", "is empty"},
		{"dash first", "-a", "beginning with a letter or digit"},
		{"upper case", "Nightly", "use lower-case letters"},
		{"slash", "a/leg-1", "use lower-case letters"},
		{"dot", "a.io", "use lower-case letters"},
		{"space", "a b", "use lower-case letters"},
		{"umlaut", "für", "use lower-case letters"},
		{"newline at the end", "a\n", "use lower-case letters"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for _, what := range []string{"job", "pool"} {
				err := CheckName(what, test.value)
				if test.problem == "" {
					require.NoError(t, err)
					continue
				}
				require.ErrorContains(t, err, test.problem)
				require.ErrorContains(t, err, what+" name")
			}
		})
	}
}

func TestQueues(t *testing.T) {
	t.Parallel()
	require.Equal(t, "stint", WorkflowQueue)
	require.Equal(t, "stint.thumbs", PoolQueue("thumbs"))
	require.Equal(t, "stint.thumbs.io", IOQueue("thumbs"))
	// No pool can have the queue of another's io, nor that of workflow tasks: names have no dots.
	require.Error(t, CheckName("pool", "thumbs.io"))
}

func TestLegID(t *testing.T) {
	t.Parallel()
	require.Equal(t, "nightly/leg-12", LegID("nightly", 12))
	for _, leg := range []int{1, 9, 10, 12345} {
		number, ok := LegNumber(LegID("some-job", leg))
		require.True(t, ok)
		require.Equal(t, leg, number)
	}
	for _, id := range []string{"", "nightly", "nightly-leg-1", "nightly/leg-", "nightly/leg-x"} {
		_, ok := LegNumber(id)
		require.False(t, ok, "%q", id)
	}
	// A leg's ID is no job's name, so that legs and jobs cannot be taken for one another.
	require.Error(t, CheckName("job", LegID("nightly", 1)))
}

func TestPermanentErrors(t *testing.T) {
	t.Parallel()
	kinds := PermanentErrors()
	require.ElementsMatch(t, []string{
		ErrorInvalid, ErrorInput, ErrorChanged, ErrorOutput, ErrorFenced, ErrorBooks, ErrorCorrupt, ErrorOrphaned, ErrorNoHook,
	}, kinds)
	kinds[0] = "changed"
	require.Equal(t, ErrorInvalid, PermanentErrors()[0], "callers get a list of their own")
}
