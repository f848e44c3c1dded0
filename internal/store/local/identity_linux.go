package local

import (
	"io/fs"
	"syscall"
	"time"
)

// identity returns what distinguishes a file from another one of the same name, size and time: its number, and when it was last
// changed in any way, which nobody can set.
func identity(info fs.FileInfo) (inode uint64, changed time.Time) {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ino, time.Unix(stat.Ctim.Unix())
	}
	return 0, time.Time{}
}
