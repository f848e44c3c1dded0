//go:build unix

package local

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/data/store/object"
)

// setupPipe makes a named pipe at a key of a directory.
func setupPipe(t *testing.T, key string) (dir *Dir, path string) {
	t.Helper()
	dir, root := setupLocal(t)
	require.NoError(t, os.MkdirAll(root, 0o755))
	path = filepath.Join(root, key)
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	return dir, path
}

// readAll reads a pipe to its end.
func readAll(t *testing.T, path string) <-chan string {
	t.Helper()
	got := make(chan string, 1)
	go func() {
		data, err := os.ReadFile(path)
		if err != nil {
			data = []byte(err.Error())
		}
		got <- string(data)
	}()
	return got
}

func requireIs(t *testing.T, path string, kind fs.FileMode) {
	t.Helper()
	info, err := os.Lstat(path)
	require.NoError(t, err)
	require.Equal(t, kind, info.Mode().Type(), "%s is what it was", path)
}

// A pipe in an object's place gets what is written, once it is whole, and stays a pipe.
func TestD20_APipeInAnObjectsPlaceIsWrittenInto(t *testing.T) {
	t.Parallel()
	dir, path := setupPipe(t, "pipe")
	sink, err := dir.Sink("pipe")
	require.NoError(t, err)
	require.True(t, sink)
	long := strings.Repeat("a line\n", 100_000)
	for _, scratch := range []string{"", t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		w, err := dir.CreateWith(t.Context(), "pipe", object.WriteOptions{Scratch: scratch})
		require.NoError(t, err)
		_, err = io.WriteString(w, long)
		require.NoError(t, err)
		got := readAll(t, path)
		require.NoError(t, w.Commit())
		require.Equal(t, long, <-got)
		require.ErrorIs(t, w.Commit(), fs.ErrClosed)
		requireIs(t, path, fs.ModeNamedPipe)
		if left, err := os.ReadDir(scratch); err == nil {
			require.Empty(t, left)
		}
	}
	require.NoError(t, dir.Delete(t.Context(), "pipe"))
	_, err = dir.Sweep(t.Context(), "", func(string) bool { return false })
	require.NoError(t, err)
	requireIs(t, path, fs.ModeNamedPipe)
}

// A pipe waits for its reader as long as the work may last, and says that a reader has left too early.
func TestD20_APipeWaitsForItsReader(t *testing.T) {
	t.Parallel()
	dir, path := setupPipe(t, "pipe")
	ctx, cancel := context.WithCancel(t.Context())
	w, err := dir.Create(ctx, "pipe")
	require.NoError(t, err)
	_, err = io.WriteString(w, "text")
	require.NoError(t, err)
	committed := make(chan error)
	go func() { committed <- w.Commit() }()
	cancel()
	require.ErrorIs(t, <-committed, context.Canceled)

	w, err = dir.Create(t.Context(), "pipe")
	require.NoError(t, err)
	_, err = io.WriteString(w, strings.Repeat("x", 1<<20))
	require.NoError(t, err)
	go func() { committed <- w.Commit() }()
	reader, err := os.Open(path)
	require.NoError(t, err)
	_, err = io.ReadFull(reader, make([]byte, 10))
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	err = <-committed
	require.ErrorContains(t, err, "its reader ended before it had read everything")
	require.True(t, object.Permanent(err))
}

// A link to a device or a pipe, and to what a process has open, is written into.
func TestD20_ALinkToADeviceOrPipe(t *testing.T) {
	t.Parallel()
	dir, path := setupPipe(t, "pipe")
	root := filepath.Dir(path)
	require.NoError(t, os.Symlink(path, filepath.Join(root, "link")))
	got := readAll(t, path)
	require.NoError(t, dir.Put(t.Context(), "link", []byte("through a link")))
	require.Equal(t, "through a link", <-got)
	requireIs(t, filepath.Join(root, "link"), fs.ModeSymlink)

	require.NoError(t, os.Symlink(os.DevNull, filepath.Join(root, "null")))
	require.NoError(t, dir.Put(t.Context(), "null", []byte("gone")))
	require.NoError(t, dir.Delete(t.Context(), "null"))
	requireIs(t, filepath.Join(root, "null"), fs.ModeSymlink)

	open, err := os.OpenFile(filepath.Join(root, "open"), os.O_CREATE|os.O_RDWR, 0o600)
	require.NoError(t, err)
	defer open.Close()
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("there is no /proc")
	}
	_, err = open.WriteString("first, ")
	require.NoError(t, err)
	descriptor := filepath.Join("/proc/self/fd", fmt.Sprint(open.Fd()))
	require.NoError(t, os.Symlink(descriptor, filepath.Join(root, "stdout")))
	require.NoError(t, dir.Put(t.Context(), "stdout", []byte("second")))
	_, err = open.WriteString(", third")
	require.NoError(t, err)
	data, err := os.ReadFile(open.Name())
	require.NoError(t, err)
	require.Equal(t, "first, second, third", string(data))
	requireIs(t, filepath.Join(root, "stdout"), fs.ModeSymlink)
}

// What is neither a file nor a sink is refused, and stays; so does what has come into the place while the object was
// written.
func TestD20_NothingButAFileIsReplaced(t *testing.T) {
	t.Parallel()
	dir, root := setupLocal(t)
	require.NoError(t, os.MkdirAll(root, 0o755))
	short, err := os.MkdirTemp("", "s") // the names of sockets are short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	listener, err := net.Listen("unix", filepath.Join(short, "s"))
	require.NoError(t, err)
	defer listener.Close()
	require.NoError(t, os.Symlink(filepath.Join(short, "s"), filepath.Join(root, "socket")))
	err = dir.Put(t.Context(), "socket", nil)
	require.ErrorContains(t, err, "a socket stands there")
	require.True(t, object.Permanent(err))
	require.NoError(t, dir.Delete(t.Context(), "socket"))
	requireIs(t, filepath.Join(root, "socket"), fs.ModeSymlink)

	w, err := dir.Create(t.Context(), "late")
	require.NoError(t, err)
	require.NoError(t, syscall.Mkfifo(filepath.Join(root, "late"), 0o600))
	require.ErrorContains(t, w.Commit(), "has come into its place")
	requireIs(t, filepath.Join(root, "late"), fs.ModeNamedPipe)

	denied, _ := setupLocal(t)
	denied.admission = nothingOutside{root}
	denied.root = root
	require.NoError(t, os.Symlink(os.DevNull, filepath.Join(root, "outside")))
	require.ErrorIs(t, denied.Put(t.Context(), "outside", nil), fs.ErrPermission)
}

// nothingOutside is an Admission that follows links, and allows nothing outside a root.
type nothingOutside struct{ root string }

func (n nothingOutside) Existing(path string) (string, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if err == nil && !strings.HasPrefix(resolved, n.root) {
		return "", fs.ErrPermission
	}
	return resolved, err
}
func (n nothingOutside) Replaced(path string) (string, error) { return path, nil }
func (n nothingOutside) Cleared(string) error                 { return nil }

// An existing file's rights are an upper bound for what replaces it.
func TestR4_RightsOfTheFileThatIsReplaced(t *testing.T) {
	t.Parallel()
	dir, root := setupLocal(t)
	path := filepath.Join(root, "out")
	for _, perm := range []fs.FileMode{0o600, 0o640, 0o400} {
		require.NoError(t, dir.Put(t.Context(), "out", []byte("old")))
		require.NoError(t, os.Chmod(path, perm))
		require.NoError(t, dir.Put(t.Context(), "out", []byte("new")))
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&^perm, "%v is no more than %v", info.Mode().Perm(), perm)
		require.NoError(t, os.Remove(path))
	}
	require.NoError(t, dir.Put(t.Context(), "private", nil))
	require.NoError(t, os.Chmod(filepath.Join(root, "private"), 0o600))
	require.NoError(t, os.Symlink("private", filepath.Join(root, "link")))
	require.NoError(t, dir.Put(t.Context(), "link", nil))
	info, err := os.Lstat(filepath.Join(root, "link"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode(), "a link is replaced, with the rights of what it led to")
}
