package workflows

import (
	"slices"
	"testing"

	"github.com/stint-run/stint/workflows/internal/coordinate"
	"github.com/stretchr/testify/require"
)

// At most two legs are open at once, and at most one page waits for a third.
func TestJob_OpenLegs(t *testing.T) {
	t.Parallel()
	w := setup(t, 5000)
	w.pageLimit = 50
	most := 0
	w.process = func(x *execution) {
		uneven(x)
		w.later(x.took/2, func() { most = max(most, len(w.query().OpenLegs)) })
	}
	report := w.mustRun()
	require.Equal(t, 11, report.Legs)
	require.LessOrEqual(t, most, coordinate.OpenLegs)
}

// What each leg is given, and what happens to manifests that nobody names.
func TestJob_HeadsOfManifests(t *testing.T) {
	t.Parallel()
	w := setup(t, 5000)
	w.pageLimit = 50
	w.process = uneven
	report := w.mustRun()
	named := map[string]int{}
	for _, c := range w.commits {
		for _, p := range c.Previous {
			named[p]++
		}
	}
	for key := range w.manifests {
		if slices.Contains(report.Manifests, key) {
			require.Zero(t, named[key], "%s is a head", key)
		} else {
			require.Equal(t, 1, named[key], "%s is named once", key)
		}
	}
	require.LessOrEqual(t, len(report.Manifests), coordinate.OpenLegs+1)
}
