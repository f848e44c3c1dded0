package store

import (
	"io/fs"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("written for slashes")
	}
	for _, c := range []struct{ location, dir, name string }{
		{"/a/b/out.jsonl", "/a/b", "out.jsonl"},
		{"/out.jsonl", "/", "out.jsonl"},
		{"out.jsonl", ".", "out.jsonl"},
		{"a//b/../out.jsonl", "a", "out.jsonl"},
		{"what?.jsonl", ".", "what?.jsonl"},
		{"file:///a/b", "/a", "b"},
		{"file:///a%20b/c%3F", "/a b", "c?"},
		{"s3://bucket/out.jsonl", "s3://bucket", "out.jsonl"},
		{"s3://bucket/x/out.jsonl?region=r", "s3://bucket/x?region=r", "out.jsonl"},
		{"s3://bucket/x/out.jsonl?region=r&endpoint=http://h:9000/", "s3://bucket/x?region=r&endpoint=http://h:9000/", "out.jsonl"},
		{"mem://name/a/b?.c", "mem://name/a", "b?.c"},
	} {
		dir, name, err := Split(c.location)
		require.NoError(t, err, c.location)
		require.Equal(t, []string{c.dir, c.name}, []string{dir, name}, c.location)
	}
	for _, location := range []string{
		"", "/", "a/", "..", ".", "a/..", "s3://bucket", "s3://bucket/", "s3://bucket/x/?region=r", "s3://bucket?region=r",
		"file://host/a", "file://", "gs://b/x", "x.lock", "s3://b/../c",
	} {
		_, _, err := Split(location)
		require.ErrorAs(t, err, new(*LocationError), "%q", location)
		require.ErrorIs(t, err, fs.ErrInvalid)
		require.True(t, Permanent(err))
	}
}

func TestIsPrefix(t *testing.T) {
	t.Parallel()
	for location, want := range map[string]bool{
		"": false, "/": true, "a": false, "a/": true, "a/?b=c": false, "a?b=c/": true,
		"s3://b": false, "s3://b/": true, "s3://b/a?x=y/": false, "s3://b/a/?region=r": true,
		"s3://b/a/?endpoint=http://h/": true, "s3://b/a?endpoint=http://h/": false,
		"file:///a/": true, "file:///a": false, "mem://b/what?/": true,
	} {
		require.Equal(t, want, IsPrefix(location), location)
	}
}

func TestAbsolute(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("written for slashes")
	}
	for location, want := range map[string]string{
		"a": "/w/a", "a/": "/w/a/", "./a/../b//": "/w/b/", "..": "/", "../": "/", ".": "/w", "./": "/w/",
		"/a/./b": "/a/b", "/": "/", "*.jsonl": "/w/*.jsonl",
		"s3://b/../x?y=z": "", "s3://b/x?y=z": "s3://b/x?y=z", "file:///a/../b": "file:///a/../b", "": "",
	} {
		got, err := Absolute(location, "/w")
		if want == "" {
			require.ErrorAs(t, err, new(*LocationError), location)
			continue
		}
		require.NoError(t, err, location)
		require.Equal(t, want, got, location)
	}
	_, err := Absolute("a", "w")
	require.ErrorAs(t, err, new(*LocationError))
}

func TestMakeAbsolute(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("written for slashes")
	}
	none, stdin, file, url := "", "-", "a/b", "s3://b/x"
	require.NoError(t, MakeAbsolute("/w", &none, &stdin, &file, &url))
	require.Equal(t, []string{"", "-", "/w/a/b", "s3://b/x"}, []string{none, stdin, file, url})
	bad, worse := "s3://b/../x", "s3://b/../y"
	err := MakeAbsolute("/w", &bad, &file, &worse)
	require.ErrorContains(t, err, "../x")
	require.ErrorContains(t, err, "../y")
}

// TestURLOfKey: whatever the key, its URL leads back to it.
func TestURLOfKey(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"", "region=r", "region=r&endpoint=http://h:1/"} {
		for _, key := range []string{"a", "a/b", "a b", "a?", "a?b=c", "a?b=c&d=e", "a??", "?", "a%20b", "a#b", "é", "a&b=c"} {
			p := parsed{scheme: "s3", bucket: "b", query: query}
			got, err := parse(p.url(key))
			require.NoError(t, err)
			p.key = key
			require.Equal(t, p, got, p.url(key))
		}
	}
}

func TestUnknownSchemes(t *testing.T) {
	t.Parallel()
	for _, location := range []string{"gs://b/x", "azblob://b/x", "http://h/x", "hdfs://x/y"} {
		_, err := (&Access{}).Open(t.Context(), location)
		require.ErrorContains(t, err, "later version", location)
		require.ErrorContains(t, err, "s3://")
		require.ErrorContains(t, err, "mem://")
		require.True(t, Permanent(err))
		_, err = expandAll(t, &Access{}, []string{location})
		require.ErrorAs(t, err, new(*LocationError))
		_, err = (&Access{}).StatInput(t.Context(), location)
		require.ErrorAs(t, err, new(*LocationError))
		_, err = (&Access{}).OpenInput(t.Context(), location, 0, -1)
		require.ErrorAs(t, err, new(*LocationError))
	}
	for _, location := range []string{"s3:///x", "s3://", "s3://a:b/x", "s3://user@b/x", "mem://b/x?y=z", "file://host/x", "s3://b/a/../c", "a\x00b"} {
		_, err := (&Access{}).Open(t.Context(), location)
		require.ErrorAs(t, err, new(*LocationError), location)
	}
}
