package records

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFormatOf(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]Format{
		"a.jsonl":                  JSONL,
		"dir.csv/a.ndjson":         JSONL,
		"export.json":              JSONL,
		"A.JSONL.GZ":               JSONL,
		"s3://bucket/x/a.csv":      CSV,
		"a.CSV.zst":                CSV,
		"a.b.txt":                  Text,
		"a.text":                   Text,
		"/var/log/syslog.log.gz":   Text,
		"words.lines":              Text,
		"with space/and.dot/a.csv": CSV,
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
		"a.tsv.gz": ".tsv", "a.csv.gz.gz": ".gz", "": "",
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
	for _, want := range []Format{JSONL, CSV, Text} {
		got, err := ParseFormat(string(want))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, name := range []string{"", "JSONL", "auto", "tsv"} {
		_, err := ParseFormat(name)
		var unknown *UnknownFormatError
		require.ErrorAs(t, err, &unknown)
		require.Equal(t, name, unknown.Name)
		require.ErrorContains(t, err, "choose jsonl, csv or text")
	}
}

func TestCompressionOf(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]Compression{
		"a.csv": None, "a.csv.gz": Gzip, "a.GZ": Gzip, "a.jsonl.zst": Zstd, "-": None, "gz": None,
	} {
		require.Equal(t, want, CompressionOf(path), path)
	}
}
