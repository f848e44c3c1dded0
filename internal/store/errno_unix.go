//go:build unix

package store

import "syscall"

// fullErrnos say that there is no room left.
var fullErrnos = []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT}

// permanentErrnos are further errors that no retry will mend.
var permanentErrnos = []syscall.Errno{
	syscall.EROFS, syscall.ENOTDIR, syscall.EISDIR, syscall.ENAMETOOLONG, syscall.ELOOP,
	syscall.EFBIG, syscall.ENOTEMPTY,
}
