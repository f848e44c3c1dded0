package records

import (
	"testing"

	"github.com/stint-run/stint/internal/base/formats"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

func TestFormatOf(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]wire.Shape{
		"a.jsonl":                  {Format: JSONL, Guess: nameJSONL},
		"dir.csv/a.ndjson":         {Format: JSONL, Guess: nameJSONL},
		"export.json":              {Format: JSONL, Guess: nameJSON},
		"A.JSONL.GZ":               {Format: JSONL, Guess: nameJSONL},
		"s3://bucket/x/a.csv":      {Format: CSV},
		"a.CSV.zst":                {Format: CSV},
		"a.tsv.gz":                 {Format: CSV, Delimiter: "\t", Quote: unquoted},
		"a.TAB":                    {Format: CSV, Delimiter: "\t", Quote: unquoted},
		"a.b.txt":                  {Format: Text},
		"a.text":                   {Format: Text},
		"/var/log/syslog.log.gz":   {Format: Text},
		"words.lines":              {Format: Text},
		"with space/and.dot/a.csv": {Format: CSV},
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			got, err := FormatOf(path)
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

func TestFormatOfUnknown(t *testing.T) {
	t.Parallel()
	for path, ext := range map[string]string{
		"-": "", "a": "", "a.gz": "", "a.csv.bz2": ".bz2", "a.parquet": ".parquet", "a.csv/b": "",
		"a.ods.gz": ".ods", "a.csv.gz.gz": ".gz", "": "",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			_, err := FormatOf(path)
			var unknown *UnknownFormatError
			require.ErrorAs(t, err, &unknown)
			require.Equal(t, path, unknown.Path)
			require.Equal(t, ext, unknown.Name)
			if path != "" {
				require.ErrorContains(t, err, "--format")
			}
		})
	}
}

func TestParseFormat(t *testing.T) {
	t.Parallel()
	for _, want := range []wire.Format{JSONL, CSV, Text, JSON} {
		got, err := ParseFormat(string(want))
		require.NoError(t, err)
		require.Equal(t, wire.Shape{Format: want}, got)
	}
	got, err := ParseFormat("tsv")
	require.NoError(t, err)
	require.Equal(t, wire.Shape{Format: CSV, Delimiter: "\t", Quote: unquoted}, got)
	for _, name := range []string{"", "JSONL", "auto", "xml"} {
		_, err := ParseFormat(name)
		var unknown *UnknownFormatError
		require.ErrorAs(t, err, &unknown)
		require.Equal(t, name, unknown.Name)
		require.ErrorContains(t, err, "choose "+formats.Names())
	}
}

func TestCompressionOf(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]wire.Compression{
		"a.csv": None, "a.csv.gz": Gzip, "a.GZ": Gzip, "a.jsonl.zst": Zstd, "-": None, "gz": None,
	} {
		require.Equal(t, want, CompressionOf(path), path)
	}
}
