package store_test

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/data/store"
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

// X1: only what lies under an allowed root may be read or written.
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
	_, err = expandAll(t, access, []string{data})
	require.Error(t, err, "the links among the files lead out")

	dir := open(t, access, data)
	_, err = dir.Get(t.Context(), "out/x.jsonl")
	requireDenied(t, err)
	_, err = dir.Get(t.Context(), "y.jsonl")
	requireDenied(t, err)
	requireDenied(t, dir.Put(t.Context(), "out/z", nil))
	requireDenied(t, dir.Delete(t.Context(), "out/x.jsonl"))
	requireDenied(t, dir.Claim(t.Context(), "out/CURRENT", "", nil))
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
		inputs, err := expandAll(t, access, []string{root + arg})
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
		_, err := expandAll(t, access, []string{root + arg})
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
		_, err := expandAll(t, access, []string{arg})
		require.NoError(t, err, arg)
	}
	for _, arg := range []string{"mem://allow-1", "mem://allow-1/", "mem://allow-1/data*/*", "mem://allow-1/database/*", "mem://allow-1/database/x.jsonl"} {
		_, err := expandAll(t, access, []string{arg})
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

func TestAllowRead_IsForReadingOnly(t *testing.T) {
	t.Parallel()
	root := setupTree(t)
	access := &store.Access{Allow: []string{root + "/data"}, AllowRead: []string{root + "/secret/x.jsonl", "mem://allow-read/in"}}
	t.Cleanup(func() { require.NoError(t, access.Close()) })
	for _, arg := range []string{"/secret/x.jsonl", "/secret/*"} {
		inputs, err := expandAll(t, access, []string{root + arg})
		require.NoError(t, err)
		require.Len(t, inputs, 1)
	}
	_, err := access.StatInput(t.Context(), root+"/secret/x.jsonl")
	require.NoError(t, err)
	_, err = access.Open(t.Context(), root+"/secret")
	requireDenied(t, err)
	_, err = access.Open(t.Context(), "mem://allow-read/in")
	requireDenied(t, err)

	access = &store.Access{Allow: []string{root + "/data"}, AllowRead: []string{root + "/secret"}}
	t.Cleanup(func() { require.NoError(t, access.Close()) })
	dir := open(t, access, root+"/secret")
	_, err = dir.Get(t.Context(), "x.jsonl")
	require.NoError(t, err)
	requireDenied(t, dir.Put(t.Context(), "x.jsonl", nil))
	requireDenied(t, dir.Delete(t.Context(), "x.jsonl"))
	requireDenied(t, dir.Claim(t.Context(), "x.jsonl", "", nil))
	_, err = dir.Sweep(t.Context(), "", func(string) bool { return false })
	requireDenied(t, err)
	require.FileExists(t, root+"/secret/x.jsonl")
}

// What is removed must be allowed as much as what is written.
func TestAllow_SweepThroughALink(t *testing.T) {
	t.Parallel()
	root := setupTree(t)
	require.NoError(t, os.Symlink(root+"/secret", root+"/data/run"))
	dir := open(t, newAccess(t, root+"/data"), root+"/data")
	_, err := dir.Sweep(t.Context(), "run/", func(string) bool { return false })
	requireDenied(t, err)
	require.FileExists(t, root+"/secret/x.jsonl")
}

func TestProtect(t *testing.T) {
	t.Parallel()
	root := setupTree(t)
	link := func(to, name string) { require.NoError(t, os.Symlink(to, filepath.Join(root, name))) }
	link("data", "current")                // a directory
	link("../secret/x.jsonl", "data/tool") // a program
	link(root+"/data", "alias")            // another way to the same
	for _, allow := range [][]string{nil, {root}} {
		access := &store.Access{Allow: allow, Protect: []string{root + "/current/tool", root + "/database"}}
		t.Cleanup(func() { require.NoError(t, access.Close()) })
		dir := open(t, access, root)
		for _, key := range []string{"current", "data/tool", "current/tool", "alias/tool", "secret/x.jsonl", "database", "database/new", "database/x.jsonl"} {
			for _, err := range []error{dir.Put(t.Context(), key, []byte("overwritten")), dir.Delete(t.Context(), key), dir.Claim(t.Context(), key, "", nil)} {
				require.ErrorAs(t, err, new(*store.ProtectedError), key)
				require.ErrorIs(t, err, fs.ErrPermission)
				require.ErrorContains(t, err, "belongs to the worker itself")
				require.True(t, store.Permanent(err))
			}
		}
		for _, prefix := range []string{"", "secret/", "data/", "alias/", "database/"} {
			_, err := dir.Sweep(t.Context(), prefix, func(string) bool { return false })
			require.ErrorAs(t, err, new(*store.ProtectedError), prefix)
		}
		for _, key := range []string{"data/x.jsonl", "secret/y", "database2", "alias", "current2/tool"} {
			require.NoError(t, dir.Put(t.Context(), key, nil), key)
		}
		require.NoError(t, os.Remove(filepath.Join(root, "alias")))
		link(root+"/data", "alias")
		secret, err := dir.Get(t.Context(), "current/tool")
		require.NoError(t, err)
		require.Equal(t, "secret", string(secret), "it can be read")
	}
}

// Links that lead in a circle, or nowhere, protect themselves.
func TestProtect_BrokenLinks(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	require.NoError(t, os.Symlink("b", root+"/a"))
	require.NoError(t, os.Symlink("a", root+"/b"))
	access := &store.Access{Protect: []string{root + "/a", root + "/nowhere/x"}}
	t.Cleanup(func() { require.NoError(t, access.Close()) })
	dir := open(t, access, root)
	for _, key := range []string{"a", "b", "nowhere/x"} {
		require.ErrorAs(t, dir.Put(t.Context(), key, nil), new(*store.ProtectedError), key)
	}
	require.NoError(t, dir.Put(t.Context(), "nowhere/y", nil))
}

func TestNarrow(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir := store.Narrow(store.Narrow(open(t, newAccess(t), root), 0o640), 0o604)
	require.NoError(t, dir.Put(t.Context(), "put", []byte("x")))
	w, err := store.CreateBulk(t.Context(), dir, "bulk")
	require.NoError(t, err)
	require.NoError(t, w.Commit())
	for _, name := range []string{"put", "bulk"} {
		info, err := os.Stat(filepath.Join(root, name))
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), name)
	}
	mem := open(t, newAccess(t), "mem://narrow/x")
	require.NoError(t, store.Narrow(mem, 0o600).Put(t.Context(), "x", nil))
}
