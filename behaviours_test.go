package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	behaviour = regexp.MustCompile(`(?m)^\| ([A-Z]+[0-9]+) \| .* \| (.*) \|$`)
	folder    = regexp.MustCompile("`([a-z/]+)` ([A-Za-z0-9_, ]+)")
)

// TestBehaviours_AreHeld: each row of docs/behaviours.md names tests that exist, and that say the row's id.
func TestBehaviours_AreHeld(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/behaviours.md")
	require.NoError(t, err)
	rows := behaviour.FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(rows), 100)
	packages := map[string]string{} // the tests of each
	for _, row := range rows {
		id, found := row[1], folder.FindAllStringSubmatch(row[2], -1)
		require.NotEmpty(t, found, "%s: no test", id)
		for _, f := range found {
			if packages[f[1]] == "" {
				files, err := filepath.Glob(filepath.Join(f[1], "*_test.go"))
				require.NoError(t, err)
				for _, file := range files {
					source, err := os.ReadFile(file)
					require.NoError(t, err)
					packages[f[1]] += string(source)
				}
			}
			for name := range strings.SplitSeq(f[2], ", ") {
				test := regexp.MustCompile(`\n(?://.*\n)*func ` + name + `\((?:.|\n)*?\n}`).FindString(packages[f[1]])
				require.NotEmpty(t, test, "%s: %s has no test %s", id, f[1], name)
				require.Regexp(t, `[^A-Za-z0-9]`+id+`[^A-Za-z0-9]`, test, "%s of %s does not say that it holds %s", name, f[1], id)
			}
		}
	}
}
