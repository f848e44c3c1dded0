package store

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// fullErrnos say that there is no room left.
var fullErrnos = []syscall.Errno{windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED}

// permanentErrnos are further errors that no retry will mend.
var permanentErrnos = []syscall.Errno{
	windows.ERROR_WRITE_PROTECT, windows.ERROR_DIRECTORY, windows.ERROR_INVALID_NAME,
	windows.ERROR_FILENAME_EXCED_RANGE, syscall.ENOTDIR, syscall.EISDIR,
}
