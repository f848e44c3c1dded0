package procs

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// Own names this process for everybody who sees the same process table: by the machine's boot, the table, its number
// and its beginning. It is "" where that cannot be found out.
var Own = sync.OnceValue(func() string {
	table, pid, start := whereabouts()
	if table == "" {
		return ""
	}
	return nameOf(table, pid, start)
})

func nameOf(table string, pid int, start uint64) string {
	return fmt.Sprintf("%s:%d:%d", table, pid, start)
}

// Ended reports whether the process of that name, which Own has returned in it, has ended. known is false if it is in
// another process table, or the name says nothing.
func Ended(name string) (ended, known bool) {
	table, rest, _ := strings.Cut(name, ":")
	number, began, _ := strings.Cut(rest, ":")
	pid, err := strconv.Atoi(number)
	start, err2 := strconv.ParseUint(began, 10, 64)
	if own, _, _ := whereabouts(); err != nil || err2 != nil || own == "" || own != table {
		return false, false
	}
	return !exists(pid, start), true
}
