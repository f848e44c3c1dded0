//go:build unix

package object

import "syscall"

// fullErrnos say that there is no space left.
var fullErrnos = []error{syscall.ENOSPC, syscall.EDQUOT}

// permanentErrnos are other errors that retrying cannot help.
var permanentErrnos = []error{
	syscall.EROFS, syscall.ENOTDIR, syscall.EISDIR, syscall.ENAMETOOLONG, syscall.ELOOP,
	syscall.EFBIG, syscall.ENOTEMPTY,
}
