package outputs

import (
	"testing"

	"github.com/stint-run/stint/internal/base/location"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

func TestFormOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		output, split string
		file, joined  bool
	}{
		{"", "", false, false},
		{"out/", "", false, false},
		{"s3://b/out/?region=r", "", false, false},
		{"out/{}.jsonl", "kind", false, false},
		{"out.csv", "", true, false},
		{"out.TSV.gz", "", true, false},
		{"out.jsonl", "", true, true},
		{"out.jsonl.zst", "", true, true},
	} {
		f := formOf(c.output, c.split)
		require.Equal(t, c.file, f.file, c.output)
		require.Equal(t, c.joined, f.joined, c.output)
	}
	require.False(t, Joined(nil))
	require.True(t, Joined(&job.Output{Location: "out.jsonl"}))
}

// Whoever names an extension for tables must say how a row of them is written.
func TestTables(t *testing.T) {
	t.Parallel()
	require.Len(t, tables, len(location.Tables))
	for _, extension := range location.Tables {
		require.Contains(t, tables, extension)
	}
}
