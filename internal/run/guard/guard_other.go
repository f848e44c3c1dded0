//go:build !linux

package guard

import (
	"os"
	"syscall"
)

// Supported says whether guards exist on this system.
const Supported = false

const selfPath = ""

var ignored []os.Signal

func ownSession() *syscall.SysProcAttr { return nil }

func killMarked(map[int]struct{}, []string) {}

func killGroup(int) {}
