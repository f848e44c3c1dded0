package child

import "syscall"

// There are no such signals here: only KILL can be sent.
const (
	SigUSR1 = syscall.Signal(0x1e)
	SigUSR2 = syscall.Signal(0x1f)
)
