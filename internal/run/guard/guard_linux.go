package guard

import (
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/stint-run/stint/internal/base/procs"
)

// Supported says whether guards exist on this system.
const Supported = true

const selfPath = "/proc/self/exe"

var ignored = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}

func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// markName is the variable that has the marks.
const markName = "STINT_CHILD"

// sweeps bounds the rounds in which processes that have left their group are killed: each kills all that
// it finds.
const sweeps = 200

// killMarked kills the processes in the sessions of these leaders, those that have one of the marks, and
// the descendants of both. It does not find others below these leaders if their parents have ended with the worker.
func killMarked(leaders map[int]struct{}, marks []string) {
	procs.KillAll(sweeps, func(p procs.Process) bool {
		if _, ok := leaders[p.Session]; ok {
			return true
		}
		mark, _ := procs.Variable(p.PID, markName)
		return slices.ContainsFunc(marks, func(m string) bool { return strings.HasPrefix(mark, m) })
	})
}

func killGroup(group int) { _ = syscall.Kill(-group, syscall.SIGKILL) } // it may be gone
