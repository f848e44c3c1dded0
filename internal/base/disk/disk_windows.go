package disk

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

func freeOf(path string) (int64, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, nil, nil); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	return int64(free), nil
}

func mountOf(path string) string { return filepath.VolumeName(path) }
