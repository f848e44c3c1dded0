//go:build !linux

package timers

// There is no process table that tells a process from another with the same pid.
var systemTable ProcessTable
