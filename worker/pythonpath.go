package worker

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stint-run/stint/python"
)

// pythonHelper is a directory that has the module stint of Python, for programs that serve.
type pythonHelper struct {
	dir       string
	temporary bool
}

// openPythonHelper returns a directory with the helper: one in the user's cache, which all workers of this version share, or, if there is
// no cache, a temporary one, which Close removes.
func openPythonHelper() (pythonHelper, error) {
	sum := sha256.Sum256(python.Helper)
	if cache, err := os.UserCacheDir(); err == nil {
		dir := filepath.Join(cache, "stint", "python-"+hex.EncodeToString(sum[:8]))
		if writeHelper(dir) == nil {
			return pythonHelper{dir: dir}, nil
		}
	}
	dir, err := os.MkdirTemp("", "stint-python-")
	if err != nil {
		return pythonHelper{}, fmt.Errorf("making a directory for Python's module stint: %w", err)
	}
	h := pythonHelper{dir: dir, temporary: true}
	if err := writeHelper(dir); err != nil {
		h.Close()
		return pythonHelper{}, err
	}
	return h, nil
}

// writeHelper has the helper in a directory, whole, whatever other workers do there.
func writeHelper(dir string) error {
	path := filepath.Join(dir, "stint.py")
	if there, err := os.ReadFile(path); err == nil && bytes.Equal(there, python.Helper) {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making a directory for Python's module stint: %w", err)
	}
	file, err := os.CreateTemp(dir, ".stint-*.py")
	if err != nil {
		return fmt.Errorf("writing Python's module stint: %w", err)
	}
	_, err = file.Write(python.Helper)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name()) // it is of no use
		return fmt.Errorf("writing Python's module stint: %w", err)
	}
	return nil
}

// Close removes a temporary directory. It can be repeated.
func (h pythonHelper) Close() {
	if h.temporary {
		_ = os.RemoveAll(h.dir) // a rest does no harm
	}
}

// setsPythonPath reports whether the worker's options say what the PYTHONPATH of its programs is.
func (o Options) setsPythonPath() bool {
	return slices.ContainsFunc(o.Env, func(v string) bool { return v == "PYTHONPATH" || strings.HasPrefix(v, "PYTHONPATH=") })
}
