package limits

import (
	"strings"
	"testing"
	"time"

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

// No pool can have the queue of another's io, nor that of workflow tasks: names have no dots. A leg's
// ID is not a job's name, so that legs and jobs cannot be taken for one another.
func TestCheckName_Reserved(t *testing.T) {
	t.Parallel()
	require.Error(t, CheckName("pool", "thumbs.io"))
	require.Error(t, CheckName("job", "nightly/leg-1"))
}

func TestScheduledName(t *testing.T) {
	t.Parallel()
	schedule, at, ok := ScheduledName("nightly-2026-11-21T03:04:05Z")
	require.True(t, ok)
	require.Equal(t, "nightly", schedule)
	require.Equal(t, time.Date(2026, 11, 21, 3, 4, 5, 0, time.UTC), at)
	for _, other := range []string{"", "nightly", "nightly-2026-11-21", "nightly-2026-13-21T03:04:05Z", "nightly-2026-11-21T03:04:05Z/leg-1"} {
		_, _, ok := ScheduledName(other)
		require.False(t, ok, "%q", other)
	}
}

// A run of a schedule can be redriven under its own name.
func TestCheckName_OfScheduledJobs(t *testing.T) {
	t.Parallel()
	require.NoError(t, CheckName("job", "nightly-2026-11-21T03:04:05Z"))
	require.Error(t, CheckName("job", "Nightly-2026-11-21T03:04:05Z"))
	require.Error(t, CheckName("job", "-2026-11-21T03:04:05Z"))
	require.Error(t, CheckName("pool", "nightly-2026-11-21T03:04:05Z"))
}
