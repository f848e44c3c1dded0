//go:build unix

package local

import (
	"errors"
	"os"
	"syscall"
)

// syncDir brings the names in a directory to the disk. File systems that cannot sync a directory
// (some in user space or on a network) keep their names durable by themselves.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, d.Close())
}
