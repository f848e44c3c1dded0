package guard

import (
	"os"
	"syscall"
)

// Supported says whether guards exist on this system.
const Supported = true

const selfPath = "/proc/self/exe"

var ignored = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}

func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func killGroup(group int) { _ = syscall.Kill(-group, syscall.SIGKILL) } // it may be gone
