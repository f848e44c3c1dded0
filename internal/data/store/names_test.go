package store_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/data/store"
)

// Two locations of one thing have a name in common, however they are written.
func TestNames(t *testing.T) {
	t.Parallel()
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	at := func(name string) string { return filepath.Join(root, name) }
	require.NoError(t, os.MkdirAll(at("real/sub"), 0o777))
	require.NoError(t, os.WriteFile(at("real/in"), []byte("x"), 0o666))
	require.NoError(t, os.Link(at("real/in"), at("real/hard")))
	for link, target := range map[string]string{"data": "real", "abs": at("real"), "real/link": "in", "again": "data/link"} {
		require.NoError(t, os.Symlink(target, at(link)))
	}
	for _, c := range []struct {
		location, target string
		names            []string
	}{
		{at("real/in"), at("real/in"), []string{at("real/in")}},
		{at("data/in"), at("real/in"), []string{at("data"), at("real/in")}},
		{at("abs/sub/../in"), at("real/in"), []string{at("abs"), at("real/in")}},
		{"file://" + at("data/in"), at("real/in"), []string{at("data"), at("real/in")}},
		{at("real/hard"), at("real/hard"), []string{at("real/hard")}},
		{at("data/link"), at("real/link"), []string{at("data"), at("real/link"), at("real/in")}},
		{at("again"), at("again"), []string{at("again"), at("data"), at("real/link"), at("real/in")}},
		{at("data/sub/none"), at("real/sub/none"), []string{at("data"), at("real/sub/none")}},
		{at("data/*/a"), at("real/*/a"), []string{at("data"), at("real/*/a")}},
		{at("data") + "/", at("real"), []string{at("data"), at("real")}},
		{at("data"), at("data"), []string{at("data"), at("real")}},
		{"s3://b/x", "s3://b/x", []string{"s3://b/x"}},
		{"S3://b/x?region=eu", "s3://b/x", []string{"s3://b/x"}},
		{"s3://b/a/x?", "s3://b/a/x", []string{"s3://b/a/x"}},
		{"s3://b/a/?region=eu", "s3://b/a", []string{"s3://b/a"}},
		{"s3://b/", "s3://b", []string{"s3://b"}},
		{"s3://b/a//x", "s3://b/a/x", []string{"s3://b/a//x"}}, // written by Open, and read by OpenInput
		{"ftp://b/x", "", nil},
	} {
		require.Equal(t, c.target, store.Target(c.location), c.location)
		require.Equal(t, c.names, store.Names(c.location), c.location)
	}
}
