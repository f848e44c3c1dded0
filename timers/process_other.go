//go:build !linux

package timers

// There is no process table here that distinguishes a process from another one with the same pid.
var systemTable ProcessTable
