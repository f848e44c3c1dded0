//go:build unix

package standard

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// InputClosed reports whether the standard input was closed when the program began.
func InputClosed() bool { return isClosed(int(os.Stdin.Fd()), unix.O_RDONLY) }

// OutputClosed reports whether nothing that is written to the standard output gets anywhere, but for a /dev/null that a
// shell has opened.
func OutputClosed() bool { return isClosed(int(os.Stdout.Fd()), unix.O_WRONLY) }

// isClosed reports whether a standard file was closed when the program began, or is not open for what it is needed for.
// Go's runtime has opened /dev/null in its place, for reading and writing, once for each. A program that starts this
// one may have done the same to be rid of what goes there (DEVNULL of Python's subprocess), which cannot be told from
// it: only results must not go there.
func isClosed(number, access int) bool {
	flags, err := unix.FcntlInt(uintptr(number), unix.F_GETFL, 0)
	if err != nil {
		return true
	}
	if has := flags & unix.O_ACCMODE; has != unix.O_RDWR {
		return has != access
	}
	var here, null unix.Stat_t
	if unix.Fstat(number, &here) != nil || unix.Stat(os.DevNull, &null) != nil {
		return false
	}
	return here.Mode&unix.S_IFMT == unix.S_IFCHR && here.Rdev == null.Rdev && !isShared(number, flags)
}

// isShared reports whether another standard file is the same opening: both have the same flags then.
func isShared(number, flags int) bool {
	const mark = unix.O_APPEND // of no meaning for /dev/null
	if _, err := unix.FcntlInt(uintptr(number), unix.F_SETFL, flags^mark); err != nil {
		return false
	}
	shared := false
	for other := range 3 {
		if other == number {
			continue
		}
		before, err := unix.FcntlInt(uintptr(other), unix.F_GETFL, 0)
		if err != nil {
			continue
		}
		if _, err := unix.FcntlInt(uintptr(number), unix.F_SETFL, flags); err != nil {
			return false
		}
		after, err := unix.FcntlInt(uintptr(other), unix.F_GETFL, 0)
		shared = shared || err == nil && before != after
		_, _ = unix.FcntlInt(uintptr(number), unix.F_SETFL, flags^mark)
	}
	_, _ = unix.FcntlInt(uintptr(number), unix.F_SETFL, flags)
	return shared
}

// OutliveReaders has a write to a pipe that nobody reads any more fail, instead of ending this process without a word.
// Programs that it starts are not affected.
func OutliveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// Writable reports whether files can be made in a directory.
func Writable(dir string) bool { return unix.Access(dir, unix.W_OK) == nil }
