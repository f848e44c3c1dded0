package worker

import "github.com/stint-run/stint/internal/child"

// cpusOf are the CPUs that a slot's process may run on; nil: all.
func (o Options) cpusOf(slot int) []int {
	switch len(o.CPUs) {
	case 0:
		return nil
	case 1:
		return o.CPUs[0]
	}
	return o.CPUs[slot]
}

// checkCPUs returns an error for CPUs that do not exist or that the worker may not use.
func (o Options) checkCPUs() error {
	if len(o.CPUs) == 0 {
		return nil
	}
	usable, err := child.UsableCPUs()
	if err != nil {
		return fieldError("CPUs", "cannot be checked: %v", err)
	}
	for _, list := range o.CPUs {
		if len(list) == 0 {
			return fieldError("CPUs", "has an empty list")
		}
		for _, cpu := range list {
			if cpu < 0 || cpu >= maxCPUs || !usable(cpu) {
				return fieldError("CPUs", "%d: this process may not use that CPU", cpu)
			}
		}
	}
	return nil
}

// maxCPUs is the size of the kernel's CPU sets.
const maxCPUs = 1024
