package worker

import (
	"context"
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stretchr/testify/require"
)

// V2: a handler's version is another one if its command or the content of a file that it names is; where the file lies
// does not matter.
func TestHandler_Version(t *testing.T) {
	t.Parallel()
	one, two := t.TempDir(), t.TempDir()
	write := func(dir, content string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "model.py"), []byte(content), 0o600))
	}
	write(one, "a")
	write(two, "a")
	h := Serve("python3", "model.py")
	version := h.version(one)
	require.NoError(t, limits.CheckVersion(version))
	require.Equal(t, version, h.version(two))
	require.NotEqual(t, version, Serve("python3", "model.py", "-v").version(one))
	require.NotEqual(t, version, Serve("python3", "other.py").version(one))
	write(two, "b")
	require.NotEqual(t, version, h.version(two))

	request := HTTP(HTTPOptions{URL: "https://example.com/a"})
	require.Equal(t, request.version(""), request.version(one))
	require.NotEqual(t, request.version(""), HTTP(HTTPOptions{URL: "https://example.com/b"}).version(""))

	goes := Each(func(_ context.Context, s string) (string, error) { return s, nil })
	require.Equal(t, goes.version(""), goes.version(one), "that of this program")
	require.NoError(t, limits.CheckVersion(goes.version("")))
	require.ErrorContains(t, goes.Check(Options{Version: "v 1"}), "Version")
}

// V2: of a large file both ends count, and its size.
func TestAddFile_OfALargeOne(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "model.bin")
	sum := func(change func([]byte)) string {
		data := make([]byte, 1000)
		change(data)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		h := sha256.New()
		addFile(h, path, 100)
		return digitsOf(h)
	}
	same := sum(func([]byte) {})
	require.NotEqual(t, same, sum(func(b []byte) { b[0] = 1 }))
	require.NotEqual(t, same, sum(func(b []byte) { b[999] = 1 }))
	require.Equal(t, same, sum(func(b []byte) { b[500] = 1 }))
}
