package jobtest

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Elsewhere makes a directory on another file system than the test's own one, to which files cannot be moved from
// there.
func Elsewhere(t *testing.T) string {
	t.Helper()
	own := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(own, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, place := range []string{"/dev/shm", "/var/tmp"} {
		dir, err := os.MkdirTemp(place, "stint")
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		if err := os.Link(own, filepath.Join(dir, "file")); err != nil {
			return dir
		}
		_ = os.Remove(filepath.Join(dir, "file"))
	}
	if runtime.GOOS == "linux" { // which has one in memory
		t.Fatal("neither /dev/shm nor /var/tmp is on another file system than " + own)
	}
	t.Skip("needs another file system")
	return ""
}
