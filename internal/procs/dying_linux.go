package procs

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// exiting is the flag of a thread that ends (PF_EXITING of the kernel).
const exiting = 0x4

// Dying reports whether a process is about to end, because it ends or has been sent KILL. It keeps its files and locks until then,
// on a busy machine for seconds. It returns false for a process that cannot be seen.
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
	return fields[0] == "Z" || fields[0] == "X" || flags&exiting != 0 || killPending(pid)
}

// killPending reports whether a process has been sent KILL and has not noticed yet.
func killPending(pid int) bool {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	return err == nil && pendingKill(status)
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
