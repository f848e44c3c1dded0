package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// asksForKind is how code asks what kind of job a spec is of.
var asksForKind = regexp.MustCompile(`\b([sS]pec(\(\))?|s|in\.Spec|c\.Spec\(\))\.(Files|Feed|Loop) [!=]= nil|\.Source\(\) [!=]=`)

// mayAsk are the files that may, and why.
var mayAsk = map[string]string{
	"job/source.go":                  "the kinds themselves",
	"job/spec.go":                    "only a loop may keep nothing, and is given to each of its slots",
	"job/schedules.go":               "schedules start jobs of files only",
	"job/newfiles.go":                "only files are new",
	"job/placeholder.go":             "fills in the names of inputs",
	"jobs/kinds.go":                  "chooses what clients know of a kind",
	"workflows/job.go":               "chooses the workflow's part",
	"workflows/internal/feed/leg.go": "refuses a leg of a job that is no feed",
	"workflows/internal/coordinate/coordinator.go": "refuses a slot of a job that is no loop",
	"internal/data/inputs/plan.go":                 "a redrive of a feed has no inputs",
	"local/spec.go":                                "makes the names of inputs absolute",
	"starter/flags.go":                             "makes the spec",
}

// TestKinds_AreChosenOnce: what only one kind of job does is behind an interface, or in a table; elsewhere nobody asks
// for the kind.
func TestKinds_AreChosenOnce(t *testing.T) {
	t.Parallel()
	asked := map[string]bool{}
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && path != "." || slices.Contains([]string{"bench", "examples", "testdata"}, entry.Name())):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if line := asksForKind.Find(text); line != nil {
			asked[filepath.ToSlash(path)] = true
			require.Contains(t, mayAsk, filepath.ToSlash(path), "%s: ask the kind instead, see jobs/kinds.go and workflows/job.go", line)
		}
		return err
	}))
	for path := range mayAsk {
		require.True(t, asked[path], "%s does not ask any more", path)
	}
}
