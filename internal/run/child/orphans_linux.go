package child

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stint-run/stint/internal/base/procs"
	"github.com/stint-run/stint/internal/base/trap"
	"golang.org/x/sys/unix"
)

// markName is the variable by which a child, and what it starts, can be recognised as ours.
const markName = "STINT_CHILD"

// ownMark is how the marks of this process's children begin. The number of the Starter follows, and that
// of the child, each with a dot before it.
var ownMark = strconv.Itoa(os.Getpid()) + "-" + rand.Text()

const (
	// orphanLimit bounds the wait for the end of what a child has left behind.
	orphanLimit = 2 * time.Second
	// tendEvery is how often orphans are looked at while children run.
	tendEvery = time.Second
	// strangerRounds is how many such rounds a zombie of unknown origin is left to whoever may want it.
	strangerRounds = 60
)

// orphanage has the orphans of this process's children, which the kernel makes children of this process.
var orphanage = &orphans{children: map[int]string{}, known: map[int]orphan{}, strangers: map[int]int{}, hidden: map[int]hiding{}}

// orphans is what is known of children, by the number of the process. It is safe for concurrent use.
type orphans struct {
	mu        sync.Mutex
	starters  int
	adopts    bool // this process is the new parent of orphans
	quit      chan struct{}
	tending   sync.WaitGroup
	last      int            // number of a Starter, or of a child
	children  map[int]string // marks of those that were started and have not been reaped; "" for one that may leave daemons
	known     map[int]orphan // orphans that were seen alive
	strangers map[int]int    // rounds in which a zombie of unknown origin was seen
	hidden    map[int]hiding // processes without an environment to be read
}

// hiding is about a process that has no environment: for good, or while it becomes another program.
type hiding struct {
	start  uint64
	rounds int // in which that was so
}

// hiddenRounds is how many rounds that is waited for.
const hiddenRounds = 10

// orphan is a process that belongs to a child.
type orphan struct {
	mark  string
	start uint64
}

// newMark returns how the marks of a Starter's children begin.
func (o *orphans) newMark() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last++
	return fmt.Sprintf("%s.%d.", ownMark, o.last)
}

// enter has this process adopt orphans until the last leave.
func (o *orphans) enter() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.starters++; o.starters > 1 {
		return
	}
	o.adopts = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil // every kernel since 3.4 can
	quit := make(chan struct{})
	o.quit = quit
	o.tending.Go(func() {
		if defect := trap.Run("tending orphans", func() { o.tendUntil(quit) }); defect != nil {
			slog.Error(defect.Error()) // they are ended with the worker
		}
	})
}

func (o *orphans) tendUntil(quit <-chan struct{}) {
	ticks := time.NewTicker(tendEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			o.tend()
		case <-quit:
			return
		}
	}
}

// deserted reports whether this process certainly has no child but its guard, not even an adopted one: then nothing is
// left of what children have started.
func (o *orphans) deserted(guard int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.adopts || len(o.children) > 0 {
		return false
	}
	all, err := procs.OwnChildren()
	return err == nil && !slices.ContainsFunc(all, func(pid int) bool { return pid != guard })
}

func (o *orphans) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.starters--; o.starters > 0 {
		return
	}
	close(o.quit)
	o.adopts = false
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) // it could be set
}

// start starts the child with its own mark, which begins with the Starter's.
func (o *orphans) start(cmd *exec.Cmd, cpus []int, starter string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last++
	mark := starter + strconv.Itoa(o.last)
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(slices.Clip(cmd.Env), markName+"="+mark)
	return o.launch(cmd, cpus, mark)
}

// launch starts a child and notes its mark.
func (o *orphans) launch(cmd *exec.Cmd, cpus []int, mark string) error {
	if err := startPinned(cmd, cpus); err != nil {
		return err
	}
	o.children[cmd.Process.Pid] = mark
	return nil
}

// look notes what is below a child, which is about to get a signal: if it ends, its descendants lose their
// connection with it.
func (o *orphans) look(child int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.noteBelow(child, o.children[child])
}

// part kills what a child has left behind outside its group, as long as connections with what is below the group are
// there.
func (o *orphans) part(child int) { o.round(child, map[int]bool{}) }

// end ends what a child has left behind. The child has ended and has not been reaped.
func (o *orphans) end(child int) {
	nap := 100 * time.Microsecond
	dead := map[int]bool{}
	for deadline := time.Now().Add(orphanLimit); o.round(child, dead) && time.Now().Before(deadline); {
		time.Sleep(nap)
		nap = min(2*nap, 10*time.Millisecond)
	}
}

// reaped forgets a child.
func (o *orphans) reaped(child int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.children, child)
}

// round kills the orphans of a child and collects those that have ended. It reports whether more may be
// left: those, and what they have started, whose parent this process becomes only then. dead are the
// processes of unknown origin that had ended in rounds before: what they have left has been seen.
func (o *orphans) round(child int, dead map[int]bool) (left bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	mark := o.children[child]
	for _, pid := range procs.Adopted() {
		if _, own := o.children[pid]; own {
			continue
		}
		p, ok := procs.Read(pid)
		of, clear := "", false
		if ok {
			of, clear = o.markOf(p)
		}
		switch {
		case of == mark:
			left = true
			o.finish(p, mark)
		case of == "" && (!ok || p.Zombie):
			left = left || !dead[pid]
			dead[pid] = true
		case !clear:
			left = left || o.hides(p)
		}
	}
	return left
}

// hides notes that a process has no environment, and reports whether it may get one.
func (o *orphans) hides(p procs.Process) bool {
	h := o.hidden[p.PID]
	if h.start != p.Start {
		h = hiding{start: p.Start}
	}
	h.rounds++
	o.hidden[p.PID] = h
	return h.rounds <= hiddenRounds
}

// markOf returns the mark of the child that an orphan belongs to; "" if that is not known. It returns
// false if that may be known a moment later.
func (o *orphans) markOf(p procs.Process) (mark string, clear bool) {
	if mark, ok := o.children[p.Session]; ok {
		return mark, true // every child leads a session, and only its descendants can be in it
	}
	if known, ok := o.known[p.PID]; ok && known.start == p.Start {
		return known.mark, true
	}
	mark, clear = procs.Variable(p.PID, markName)
	if !strings.HasPrefix(mark, ownMark+".") {
		mark = ""
	}
	return mark, clear
}

// finish kills an orphan, or collects it if it has ended. It is our own child, and nobody else's to
// collect: so its number is not given to another process meanwhile.
func (o *orphans) finish(p procs.Process, mark string) {
	if p.Zombie {
		_, _ = syscall.Wait4(p.PID, nil, syscall.WNOHANG, nil) // it has ended
		delete(o.known, p.PID)
		return
	}
	o.note(p, mark)
	_ = syscall.Kill(p.PID, syscall.SIGKILL) // it may be another user's by now
}

// note notes that a process, and all below it, belong to a child.
func (o *orphans) note(p procs.Process, mark string) {
	o.known[p.PID] = orphan{mark, p.Start}
	o.noteBelow(p.PID, mark)
}

func (o *orphans) noteBelow(parent int, mark string) {
	for _, pid := range procs.Children(parent) {
		if below, ok := procs.Read(pid); ok && below.Parent == parent {
			o.note(below, mark)
		}
	}
}

// tend looks after orphans while their children run: it notes whose they are, collects those that have
// ended, and kills those whose child is gone.
func (o *orphans) tend() {
	o.mu.Lock()
	defer o.mu.Unlock()
	running := map[string]bool{}
	for pid, mark := range o.children {
		running[mark] = true
		o.noteBelow(pid, mark)
	}
	seen := map[int]bool{}
	for _, pid := range procs.Adopted() {
		p, ok := procs.Read(pid)
		if _, own := o.children[pid]; own || !ok {
			continue
		}
		seen[pid] = true
		switch mark, _ := o.markOf(p); {
		case mark == "" && p.Zombie:
			o.stranger(p)
		case mark == "": // somebody else's child, or one that hides whose it is
		case p.Zombie || !running[mark]:
			o.finish(p, mark)
		default:
			o.note(p, mark)
		}
	}
	gone := func(pid int, start uint64) bool {
		p, ok := procs.Read(pid)
		return !ok || p.Start != start
	}
	maps.DeleteFunc(o.strangers, func(pid, _ int) bool { return !seen[pid] })
	maps.DeleteFunc(o.hidden, func(pid int, h hiding) bool { return gone(pid, h.start) })
	maps.DeleteFunc(o.known, func(pid int, of orphan) bool { return gone(pid, of.start) })
}

// stranger collects a zombie of unknown origin after a while, if it is in no session of ours: this
// process may be the init of its container.
func (o *orphans) stranger(p procs.Process) {
	own, err := unix.Getsid(0)
	if err != nil || p.Session == own {
		return // it may be a child that another part of this program waits for
	}
	if o.strangers[p.PID]++; o.strangers[p.PID] >= strangerRounds {
		_, _ = syscall.Wait4(p.PID, nil, syscall.WNOHANG, nil) // it has ended
	}
}

// partLimit is how long what a child has left in its session may take to begin one of its own.
const partLimit = 5 * time.Second

// daemons has the children that may leave daemons: only what is in their session ends with them. They have no mark, and
// this process adopts nothing because of them.
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

// part waits for what is about to begin a session of its own: setsid(1) in the background may be behind the end of the
// shell that has started it.
func (sessions) part(child int) { untilEmpty(child, partLimit, func(procs.Process) {}) }

// end kills what a child has left in its session. The child has ended and has not been reaped, so the session's number
// is its own.
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
