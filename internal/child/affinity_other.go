//go:build !linux

package child

import (
	"errors"
	"os/exec"
)

// startPinned starts the command. CPUs cannot be chosen here: checkCPUs has refused them.
func startPinned(cmd *exec.Cmd, _ []int) error { return cmd.Start() }

func UsableCPUs() (func(cpu int) bool, error) {
	return nil, errors.New("the CPUs of processes cannot be chosen on this system")
}

func WriteAtOnce(stream) func([]byte) int { return writeNothing }
