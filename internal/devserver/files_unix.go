//go:build unix

package devserver

import (
	"errors"
	"os"
)

// syncDir has the names in a directory on disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
