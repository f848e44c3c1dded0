//go:build !linux

package worker

import (
	"errors"
	"os/exec"
)

// startPinned starts the command. Where CPUs cannot be chosen, checkCPUs has refused them.
func startPinned(cmd *exec.Cmd, _ []int) error { return cmd.Start() }

func usableCPUs() (func(cpu int) bool, error) {
	return nil, errors.New("the CPUs of processes cannot be chosen on this system")
}

func writeAtOnce(stream) func([]byte) int { return writeNothing }

func oomKills() int64 { return 0 }
