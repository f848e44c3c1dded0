// Package disk looks at the disks that directories lie on.
package disk

import (
	"os"
	"path/filepath"
)

// Space is how much room a disk has.
type Space struct {
	Free int64 // in bytes, for users who are not root
	// At names the disk: where it is mounted, as far as that is known.
	At string
}

// Of returns the space of the disk that a path lies on. Of a path that does not exist it looks at the nearest
// directory above that does.
func Of(path string) (Space, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Space{}, err
	}
	for {
		_, err := os.Stat(path)
		if err == nil {
			break
		}
		above := filepath.Dir(path)
		if above == path {
			return Space{}, err
		}
		path = above
	}
	free, err := freeOf(path)
	return Space{Free: free, At: mountOf(path)}, err
}
