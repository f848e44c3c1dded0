//go:build !linux

// Package procs reads what the kernel reports about processes (Linux only).
package procs

// Dying reports whether a process is about to end. Here it is not known.
func Dying(int) bool { return false }

func whereabouts() (table string, pid int, start uint64) { return "", 0, 0 }

func exists(int, uint64) bool { return true }
