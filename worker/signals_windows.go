package worker

import "syscall"

// There are no such signals here: nothing can be sent but KILL.
const (
	sigUSR1 = syscall.Signal(0x1e)
	sigUSR2 = syscall.Signal(0x1f)
)
