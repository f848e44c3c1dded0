package object

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// fullErrnos say that there is no space left.
var fullErrnos = []error{windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED}

// permanentErrnos are other errors that retrying cannot help.
var permanentErrnos = []error{
	windows.ERROR_WRITE_PROTECT, windows.ERROR_DIRECTORY, windows.ERROR_INVALID_NAME,
	windows.ERROR_FILENAME_EXCED_RANGE, syscall.ENOTDIR, syscall.EISDIR,
}
