//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package child

import (
	"os"

	"golang.org/x/sys/unix"
)

// awaitExit returns true when the process has ended, without reaping it; false if that cannot be
// awaited.
func awaitExit(p *os.Process) bool {
	queue, err := unix.Kqueue()
	if err != nil {
		return false
	}
	defer unix.Close(queue)
	unix.CloseOnExec(queue)
	var change [1]unix.Kevent_t
	unix.SetKevent(&change[0], p.Pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	change[0].Fflags = unix.NOTE_EXIT
	var event [1]unix.Kevent_t
	for {
		n, err := unix.Kevent(queue, change[:], event[:], nil)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.ESRCH:
			return true // it has ended already: until it is reaped its number is its own
		}
		return err == nil && n == 1
	}
}
