package child

import (
	"os/exec"
	"time"

	"github.com/stint-run/stint/internal/procs"
)

// partLimit is how long what a child has left in its session may take to begin one of its own.
const partLimit = 5 * time.Second

// daemons has the children that may leave daemons: only what is in their session ends with them. They have no mark, and this process adopts
// nothing because of them.
var daemons sessions

type sessions struct{}

func (sessions) newMark() string   { return orphanage.newMark() } // nobody has it: the guard looks at sessions
func (sessions) enter()            {}
func (sessions) leave()            {}
func (sessions) deserted(int) bool { return true } // every child has been waited for
func (sessions) look(int)          {}
func (sessions) reaped(child int)  { orphanage.reaped(child) }

func (sessions) start(cmd *exec.Cmd, cpus []int, _ string) error {
	orphanage.mu.Lock()
	defer orphanage.mu.Unlock()
	return orphanage.launch(cmd, cpus, "")
}

// part waits for what is about to begin a session of its own: setsid(1) in the background may be behind the end of the shell that has started it.
func (sessions) part(child int) { untilEmpty(child, partLimit, func(procs.Process) {}) }

// end kills what a child has left in its session. The child has ended and has not been reaped, so the session's number is its own.
func (sessions) end(child int) { untilEmpty(child, orphanLimit, procs.Kill) }

// untilEmpty calls do for the processes of a child's session, again and again until there is none, or until the limit.
func untilEmpty(child int, limit time.Duration, do func(procs.Process)) {
	nap := time.Millisecond
	for deadline := time.Now().Add(limit); ; {
		empty := true
		for _, p := range procs.All() {
			if p.Session == child && p.PID != child && !p.Zombie {
				empty = false
				do(p)
			}
		}
		if empty || time.Now().After(deadline) {
			return
		}
		time.Sleep(nap)
		nap = min(2*nap, 20*time.Millisecond)
	}
}
