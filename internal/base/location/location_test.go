package location

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLocation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		location, rest, query string
		prefix                bool
	}{
		// Paths have no query.
		{"", "", "", false},
		{"a", "a", "", false},
		{"a/", "a/", "", true},
		{"/", "/", "", true},
		{"/out/?", "/out/?", "", false},
		{"/out/?a=b", "/out/?a=b", "", false},
		{"what?.jsonl", "what?.jsonl", "", false},
		{"what?/", "what?/", "", true},
		{"a?b=c/", "a?b=c/", "", true},
		// URLs.
		{"s3://b", "s3://b", "", false},
		{"s3://b/", "s3://b/", "", true},
		{"s3://b/out/?", "s3://b/out/", "?", true},
		{"s3://b/out?", "s3://b/out", "?", false},
		{"s3://b/out/?region=r", "s3://b/out/", "?region=r", true},
		{"s3://b/out?endpoint=http://h/", "s3://b/out", "?endpoint=http://h/", false},
		{"s3://b/out/?endpoint=http://h:1&profile=x", "s3://b/out/", "?endpoint=http://h:1&profile=x", true},
		{"s3://b/what?/", "s3://b/what?/", "", true},
		{"s3://b/what?/out", "s3://b/what?/out", "", false},
		{"s3://b/what?x?region=r", "s3://b/what?x", "?region=r", false},
		{"s3://b/part?", "s3://b/part", "?", false},
		{"s3://b/part?*.jsonl", "s3://b/part?*.jsonl", "", false},
		{"s3://b/x/?9=a", "s3://b/x/?9=a", "", false},
		{"mem://b/a/", "mem://b/a/", "", true},
		{"file:///a/", "file:///a/", "", true},
		{"file:///a", "file:///a", "", false},
	} {
		rest, query := SplitQuery(c.location)
		require.Equal(t, []string{c.rest, c.query}, []string{rest, query}, "%q", c.location)
		require.Equal(t, c.prefix, IsPrefix(c.location), "%q", c.location)
		require.Equal(t, c.rest+".x"+c.query, Append(c.location, ".x"), "%q", c.location)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	for location, want := range map[string]string{
		"a.csv": ".csv", "a.TSV": ".tsv", "a.tab": ".tab", "a.jsonl": "", "csv": "", "a.csv.gz": ".csv", "a.tsv.ZST": ".tsv", "a.jsonl.gz": "", "a.csv.bz2": "", ".gz": "",
		"s3://b/a.csv.gz?region=r": ".csv",
	} {
		require.Equal(t, want, Table(location), "%q", location)
	}
}
