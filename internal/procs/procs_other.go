//go:build !linux

// Package procs reads what the kernel reports about processes (Linux only).
package procs
