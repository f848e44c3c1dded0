package formats_test

import (
	"testing"

	"github.com/stint-run/stint/internal/base/formats"
	"github.com/stretchr/testify/require"
)

func TestNames(t *testing.T) {
	t.Parallel()
	require.Equal(t, "jsonl, json, csv, tsv, text or text0", formats.Names())
	require.Equal(t, "jsonl, json, csv, tsv, text, text0 or auto", formats.Names(formats.Auto))
	require.Equal(t, "jsonl or text", formats.LineNames())
}

func TestByExtension(t *testing.T) {
	t.Parallel()
	f, ok := formats.ByExtension(".TAB")
	require.True(t, ok)
	require.Equal(t, "tsv", f.Name)
	_, ok = formats.ByExtension("")
	require.False(t, ok)
}

func TestExtension(t *testing.T) {
	t.Parallel()
	for want, of := range map[string][2]string{
		".jsonl": {"jsonl"}, ".txt": {"text"}, ".csv": {"csv", ";"}, ".tsv": {"csv", "\t"},
	} {
		require.Equal(t, want, formats.Extension(of[0], of[1]))
	}
}

// No two formats have a name or an extension in common.
func TestAll_AreDistinct(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, f := range formats.All() {
		for _, name := range append([]string{f.Name}, f.Extensions...) {
			require.False(t, seen[name], name)
			seen[name] = true
		}
	}
}
