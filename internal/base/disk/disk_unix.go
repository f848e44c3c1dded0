//go:build unix

package disk

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

func freeOf(path string) (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	if fs.Blocks == 0 { // it does not count them
		return 0, &os.PathError{Op: "statfs", Path: path, Err: errors.ErrUnsupported}
	}
	return int64(fs.Bavail) * int64(fs.Bsize), nil //nolint:unconvert // the types differ between systems
}

// mountOf goes up to where another disk begins.
func mountOf(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	for device := deviceOf(path); ; path = filepath.Dir(path) {
		if above := filepath.Dir(path); above == path || deviceOf(above) != device {
			return path
		}
	}
}

func deviceOf(path string) uint64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	stat, _ := info.Sys().(*syscall.Stat_t)
	return uint64(stat.Dev) //nolint:unconvert // the types differ between systems
}
