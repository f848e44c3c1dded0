package store_test

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/store"
)

// setupTree makes data/, database/ and secret/ with a file x.jsonl each, and returns their parent.
func setupTree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"data", "data/sub", "database", "secret"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(root, dir, "x.jsonl"), []byte(dir), 0o666))
	}
	return root
}

func TestAllowPaths(t *testing.T) {
	t.Parallel()
	root := setupTree(t)
	access := newAccess(t, root+"/data/", "file://"+root+"/new", "s3://bucket/x")
	for _, location := range []string{"/data", "/data/", "/data/sub", "/data/not/yet", "/new", "/new/y", "/secret/../data"} {
		_, err := access.Open(t.Context(), root+location)
		require.NoError(t, err, location)
	}
	for _, location := range []string{"", "/database", "/secret", "/data/../secret", "/data/sub/../../database", "/newer", "/data/../data2"} {
		_, err := access.Open(t.Context(), root+location)
		requireDenied(t, err)
	}
	_, err := access.Open(t.Context(), "file://"+root+"/secret")
	requireDenied(t, err)
	_, err = access.Open(t.Context(), "mem://bucket/x")
	requireDenied(t, err)

	_, err = access.StatInput(t.Context(), root+"/data/x.jsonl")
	require.NoError(t, err)
	_, err = access.StatInput(t.Context(), root+"/secret/x.jsonl")
	requireDenied(t, err)
	_, err = access.OpenInput(t.Context(), root+"/secret/x.jsonl", 0, -1)
	requireDenied(t, err)
	_, err = access.OpenInput(t.Context(), root+"/secret/no-such-file", 0, -1)
	requireDenied(t, err)
}

func requireDenied(t *testing.T, err error) {
	t.Helper()
	require.ErrorAs(t, err, new(*store.DeniedError))
	require.ErrorIs(t, err, fs.ErrPermission)
	require.ErrorContains(t, err, "--allow")
	require.True(t, store.Permanent(err))
}

func TestAllowResolvesLinks(t *testing.T) {
	t.Parallel()
	root := setupTree(t)
	data := filepath.Join(root, "data")
	if err := os.Symlink(filepath.Join(root, "secret"), filepath.Join(data, "out")); err != nil {
		t.Skip("no symbolic links here")
	}
	require.NoError(t, os.Symlink(filepath.Join(root, "secret", "x.jsonl"), filepath.Join(data, "y.jsonl")))
	require.NoError(t, os.Symlink(filepath.Join(root, "nowhere"), filepath.Join(data, "broken")))
	require.NoError(t, os.Symlink(data, filepath.Join(root, "alias")))

	access := newAccess(t, data)
	_, err := access.Open(t.Context(), filepath.Join(data, "out"))
	requireDenied(t, err)
	_, err = access.Open(t.Context(), filepath.Join(data, "out", "not", "yet"))
	requireDenied(t, err)
	_, err = access.Open(t.Context(), filepath.Join(data, "broken", "x"))
	require.Error(t, err)
	_, err = access.OpenInput(t.Context(), filepath.Join(data, "y.jsonl"), 0, -1)
	requireDenied(t, err)
	_, err = access.Expand(t.Context(), []string{data})
	require.Error(t, err, "the links among the files lead out")

	dir := open(t, access, data)
	_, err = dir.Get(t.Context(), "out/x.jsonl")
	requireDenied(t, err)
	_, err = dir.Get(t.Context(), "y.jsonl")
	requireDenied(t, err)
	requireDenied(t, dir.Put(t.Context(), "out/z", nil))
	requireDenied(t, dir.Delete(t.Context(), "out/x.jsonl"))
	requireDenied(t, dir.Claim(t.Context(), "out/CURRENT", ""))
	require.NoError(t, dir.Put(t.Context(), "y.jsonl", []byte("replaced")))
	secret, err := os.ReadFile(filepath.Join(root, "secret", "x.jsonl"))
	require.NoError(t, err)
	require.Equal(t, "secret", string(secret), "the link was replaced, not followed")

	through := open(t, access, filepath.Join(root, "alias"))
	put(t, through, "through-alias")
	byAlias := newAccess(t, filepath.Join(root, "alias"))
	require.Contains(t, keys(t, open(t, byAlias, data), ""), "through-alias", "roots are resolved too")
}

func TestAllowExpand(t *testing.T) {
	t.Parallel()
	root := setupTree(t)
	access := newAccess(t, root+"/data", root+"/database/x.jsonl")
	for _, arg := range []string{"/data", "/data/*.jsonl", "/data/**/*.jsonl", "/database/x.jsonl", "/database/*", "/data*/x.jsonl"} {
		inputs, err := access.Expand(t.Context(), []string{root + arg})
		require.NoError(t, err, arg)
		for _, input := range inputs {
			r, err := access.OpenInput(t.Context(), input.URL, 0, -1)
			require.NoError(t, err)
			_, err = io.ReadAll(r)
			require.NoError(t, err)
			require.NoError(t, r.Close())
		}
	}
	for _, arg := range []string{"/secret", "/secret/*.jsonl", "/secret/none-*", "/*/x.jsonl", "/**", "/database", "/"} {
		_, err := access.Expand(t.Context(), []string{root + arg})
		requireDenied(t, err)
	}
}

func TestAllowBuckets(t *testing.T) {
	t.Parallel()
	everything := newAccess(t)
	put(t, open(t, everything, "mem://allow-1/data"), "x.jsonl", "sub/y.jsonl")
	put(t, open(t, everything, "mem://allow-1/database"), "x.jsonl")
	access := newAccess(t, "mem://allow-1/data/", "s3://bucket/p?"+s3Query(), "/somewhere")
	for _, location := range []string{
		"mem://allow-1/data", "mem://allow-1/data/", "mem://allow-1/data/sub", "s3://bucket/p/q?" + s3Query(),
		"s3://bucket/p?endpoint=" + fakeS3().URL + "&use_path_style=true&anonymous=true&region=us-east-1",
	} {
		_, err := access.Open(t.Context(), location)
		require.NoError(t, err, location)
	}
	for _, location := range []string{
		"mem://allow-1", "mem://allow-1/", "mem://allow-1/database", "mem://allow-2/data", "s3://allow-1/data",
		"s3://bucket/p", "s3://bucket/p?endpoint=http://elsewhere", "s3://bucket/p?profile=other&" + s3Query(),
	} {
		_, err := access.Open(t.Context(), location)
		requireDenied(t, err)
		_, err = access.StatInput(t.Context(), location)
		requireDenied(t, err)
		_, err = access.OpenInput(t.Context(), location, 0, -1)
		requireDenied(t, err)
	}
	for _, arg := range []string{"mem://allow-1/data/", "mem://allow-1/data/**", "mem://allow-1/data/x.jsonl", "mem://allow-1/dat?/x.jsonl"} {
		_, err := access.Expand(t.Context(), []string{arg})
		require.NoError(t, err, arg)
	}
	for _, arg := range []string{"mem://allow-1", "mem://allow-1/", "mem://allow-1/data*/*", "mem://allow-1/database/*", "mem://allow-1/database/x.jsonl"} {
		_, err := access.Expand(t.Context(), []string{arg})
		requireDenied(t, err)
	}
	_, err := access.Open(t.Context(), "mem://allow-1/data/../database")
	require.ErrorAs(t, err, new(*store.LocationError))
}

func TestAllowIsNotUnderstood(t *testing.T) {
	t.Parallel()
	access := newAccess(t, "gs://bucket")
	_, err := access.Open(t.Context(), t.TempDir())
	require.ErrorAs(t, err, new(*store.LocationError))
}
