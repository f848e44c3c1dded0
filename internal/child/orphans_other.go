//go:build !linux

package child

import "os/exec"

// orphanage does nothing on this system: processes that leave their group get away.
var orphanage orphans

// daemons are such processes.
var daemons = orphanage

type orphans struct{}

func (orphans) newMark() string   { return "" }
func (orphans) look(int)          {}
func (orphans) enter()            {}
func (orphans) leave()            {}
func (orphans) deserted(int) bool { return false }
func (orphans) part(int)          {}
func (orphans) end(int)           {}
func (orphans) reaped(int)        {}

func (orphans) start(cmd *exec.Cmd, cpus []int, _ string) error { return startPinned(cmd, cpus) }
