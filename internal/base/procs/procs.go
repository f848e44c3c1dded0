//go:build linux

// Package procs reads what the kernel reports about processes, and kills one only if its number is still its own: by
// pidfd and start time (Linux only).
package procs

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process describes a process at one moment.
type Process struct {
	PID, Parent, Session int
	Zombie               bool   // it has ended, and its parent has not collected it
	Start                uint64 // when it began, in the kernel's ticks: with PID it names one process
}

// Read returns a process, and false if there is none.
func Read(pid int) (Process, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Process{}, false
	}
	at := bytes.LastIndexByte(stat, ')') // behind the name, which may hold anything
	fields := strings.Fields(string(stat[at+1:]))
	if at < 0 || len(fields) < 20 {
		return Process{}, false
	}
	p := Process{PID: pid, Zombie: fields[0] == "Z" || fields[0] == "X"}
	var errs [3]error
	p.Parent, errs[0] = strconv.Atoi(fields[1])
	p.Session, errs[1] = strconv.Atoi(fields[3])
	p.Start, errs[2] = strconv.ParseUint(fields[19], 10, 64)
	return p, errs == [3]error{}
}

// All returns all processes that can be seen.
func All() []Process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var all []Process
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			if p, ok := Read(pid); ok {
				all = append(all, p)
			}
		}
	}
	return all
}

// Children returns the numbers of the children of all threads of a process, adopted ones included. It may miss one that
// is started meanwhile.
func Children(pid int) []int {
	const tries = 3 // a thread may end meanwhile
	for range tries {
		threads, err := threadsOf(pid)
		if err != nil {
			return nil // the process is gone
		}
		if children, err := childrenOf(pid, threads); err == nil {
			return children
		}
	}
	return byParent(pid)
}

// Adopted returns the numbers of the processes that this process has adopted: the kernel gives them to its first
// thread. Children that this thread has started are among them.
func Adopted() []int {
	own := os.Getpid()
	children, err := childrenOf(own, []int{own})
	if err != nil {
		return byParent(own)
	}
	return children
}

// OwnChildren returns the numbers of the children of all threads of this process, adopted ones included. It fails
// rather than miss one.
func OwnChildren() ([]int, error) {
	own := os.Getpid()
	threads, err := threadsOf(own)
	if err != nil {
		return nil, err
	}
	return childrenOf(own, threads)
}

// threadsOf returns the numbers of a process's threads, the first one last: it gets the children of those that end.
func threadsOf(pid int) ([]int, error) {
	entries, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		return nil, err
	}
	var threads []int
	for _, entry := range entries {
		if thread, err := strconv.Atoi(entry.Name()); err == nil && thread != pid {
			threads = append(threads, thread)
		}
	}
	return append(threads, pid), nil
}

// childrenOf returns the numbers of the children of these threads of a process. It fails if a thread has ended: another
// one has its children.
func childrenOf(pid int, threads []int) ([]int, error) {
	var children []int
	for _, thread := range threads {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/task/" + strconv.Itoa(thread) + "/children")
		if err != nil {
			return nil, err
		}
		for field := range strings.FieldsSeq(string(text)) {
			if n, err := strconv.Atoi(field); err == nil {
				children = append(children, n)
			}
		}
	}
	return children, nil
}

// byParent returns the numbers of a process's children if its threads do not say: the kernel may have been built
// without that.
func byParent(pid int) []int {
	var children []int
	for _, p := range All() {
		if p.Parent == pid {
			children = append(children, p.PID)
		}
	}
	return children
}

// Variable returns a variable of the environment that a process was started with, "" if it is not set. It
// is not ok if there is no environment to be read, as for a moment while a process becomes another
// program.
func Variable(pid int, name string) (value string, ok bool) {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil || len(env) == 0 {
		return "", false
	}
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if rest, ok := bytes.CutPrefix(v, []byte(name+"=")); ok {
			value = string(rest)
		}
	}
	return value, true
}

// Kill kills the process, unless its number is another's by now.
func Kill(p Process) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if now, ok := Read(p.PID); !ok || now.Start != p.Start {
		if err == nil {
			_ = unix.Close(fd)
		}
		return
	}
	if err != nil {
		_ = syscall.Kill(p.PID, syscall.SIGKILL) // an old kernel; it may be gone
		return
	}
	_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // it may be gone
	_ = unix.Close(fd)
}

// pause is the time between two rounds: a process that was killed needs a moment to end.
const pause = 2 * time.Millisecond

// clean is how many rounds in a row must find nothing: a process that becomes another program has no
// environment for a moment.
const clean = 3

// KillAll kills the processes that match, and their descendants, until none of them is left or so many
// rounds have been made. It reports whether none is left. It never kills the caller.
func KillAll(rounds int, match func(Process) bool) bool {
	for range clean {
		if !killAll(rounds, match) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}

func killAll(rounds int, match func(Process) bool) bool {
	for range rounds {
		below := map[int]bool{}
		all := All()
		slices.SortFunc(all, func(a, b Process) int { return a.PID - b.PID })
		for more := true; more; { // a child may have a lower number than its parent
			more = false
			for _, p := range all {
				if !below[p.PID] && p.PID != os.Getpid() && !p.Zombie && (below[p.Parent] || match(p)) {
					below[p.PID], more = true, true
				}
			}
		}
		if len(below) == 0 {
			return true
		}
		for _, p := range all {
			if below[p.PID] {
				Kill(p)
			}
		}
		time.Sleep(pause)
	}
	return false
}

// AwaitExit returns when a child of this process has ended. It does not collect it.
//
// It waits as one waits for a connection. A goroutine in a system call that blocks keeps one of the processors that Go
// has for goroutines, for up to 10 ms if nothing else happens: with two processors and two children a whole program
// stood still so long.
func AwaitExit(pid int) {
	pollExit(pid)
	blockUntilExit(pid) // does not block any more, if it could be polled
}

func blockUntilExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return // who collects it gets any other error again
		}
	}
}

// pollExit waits if the kernel can poll processes (from 5.10 on).
func pollExit(pid int) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer func() { _ = f.Close() }() // nothing was written
	conn, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Read(func(fd uintptr) bool { // who calls this waits once more
		for {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			if err != unix.EINTR {
				return n > 0 || err != nil
			}
		}
	})
}

// exiting is the flag of a thread that ends (PF_EXITING of the kernel).
const exiting = 0x4

// Dying reports whether a process is about to end, because it ends or has been sent KILL. It keeps its files and locks
// until then, on a busy machine for seconds. It returns false for a process that cannot be seen.
func Dying(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 7 {
		return false
	}
	flags, _ := strconv.ParseUint(fields[6], 10, 64)
	if fields[0] == "Z" || fields[0] == "X" || flags&exiting != 0 {
		return true
	}
	status, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status") // empty if it is gone
	return pendingKill(status)
}

// pendingKill reports whether KILL is among the pending signals of a /proc/PID/status, of the thread or the process.
func pendingKill(status []byte) bool {
	for line := range bytes.Lines(status) {
		name, mask, _ := strings.Cut(string(line), ":")
		if name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		if pending, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64); err == nil && pending&(1<<(syscall.SIGKILL-1)) != 0 {
			return true
		}
	}
	return false
}

// whereabouts returns which process table this process is in, and its number and beginning there. The table is "" if
// that is not known.
func whereabouts() (table string, pid int, start uint64) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, err2 := os.Readlink("/proc/self/ns/pid")
	own, ok := Read(os.Getpid())
	if err != nil || err2 != nil || !ok {
		return "", 0, 0
	}
	sum := fnv.New64a()
	_, _ = sum.Write(append(boot, space...))
	return fmt.Sprintf("%x", sum.Sum64()), own.PID, own.Start
}

func exists(pid int, start uint64) bool {
	p, ok := Read(pid)
	return ok && !p.Zombie && p.Start == start
}
