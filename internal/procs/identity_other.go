//go:build !linux

package procs

func whereabouts() (table string, pid int, start uint64) { return "", 0, 0 }

func exists(int, uint64) bool { return true }
