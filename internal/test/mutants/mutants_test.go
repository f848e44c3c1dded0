package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../../.."

// What the mutants change is there, and so are the tests that must notice.
func TestMutants_AreOfTheseFiles(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, m := range mutants {
		require.False(t, names[m.name], m.name)
		names[m.name] = true
		_, err := m.change(root)
		require.NoError(t, err)
		files, err := filepath.Glob(filepath.Join(root, m.pkg, "*_test.go"))
		require.NoError(t, err)
		var text strings.Builder
		for _, file := range files {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			text.Write(data)
		}
		for test := range strings.SplitSeq(m.tests, "|") {
			require.Regexp(t, regexp.MustCompile(`func `+test+`\(`), text.String(), "%s: %s", m.name, m.pkg)
		}
	}
	require.GreaterOrEqual(t, len(mutants), 20)
}

// A text that is not there once is refused: the mutant would prove nothing.
func TestMutant_TextThatIsNotThereOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.go"), []byte("one two two"), 0o600))
	m := mutant{name: "m", file: "a.go", old: "one", new: "three"}
	data, err := m.change(dir)
	require.NoError(t, err)
	require.Equal(t, "three two two", string(data))
	for _, old := range []string{"two", "four"} {
		m.old = old
		_, err := m.change(dir)
		require.ErrorContains(t, err, "not once")
	}
}
