//go:build unix

package child

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// SelfPath is this program, though its file may have been replaced (Linux only).
var SelfPath = func() string {
	const link = "/proc/self/exe"
	if _, err := os.Stat(link); err == nil {
		return link
	}
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}()

// CanRunAgain returns an error if this program cannot be its own child.
func CanRunAgain() error { return nil }

// TakeStandardStreams keeps the standard input and output for the protocol. Whatever else this process
// prints goes to its standard error, and its standard input is empty.
func TakeStandardStreams() (in, out *os.File, err error) {
	keep := func(fd int, name string) (*os.File, error) {
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return nil, os.NewSyscallError("fcntl", err)
		}
		if err := unix.SetNonblock(own, true); err != nil {
			return nil, os.NewSyscallError("fcntl", err)
		}
		return os.NewFile(uintptr(own), name), nil
	}
	if in, err = keep(0, "frames in"); err != nil {
		return nil, nil, err
	}
	if out, err = keep(1, "frames out"); err != nil {
		return nil, nil, err
	}
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		return nil, nil, err
	}
	defer nothing.Close()
	if err := dup(int(nothing.Fd()), 0); err != nil {
		return nil, nil, os.NewSyscallError("dup", err)
	}
	if err := dup(2, 1); err != nil {
		return nil, nil, os.NewSyscallError("dup", err)
	}
	return in, out, nil
}

// signalGroup sends a signal to the process group that the process leads. One that is gone is not an error.
func signalGroup(p *os.Process, s syscall.Signal) error {
	if err := syscall.Kill(-p.Pid, s); err != syscall.ESRCH {
		return err
	}
	return nil
}
