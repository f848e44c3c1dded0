package worker

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/run/child"
	"github.com/stretchr/testify/require"
)

// W1, W2, W6: every slot's process has the slot's own number, seed and CPUs.
func TestServe_EverySlotItsOwn(t *testing.T) {
	t.Parallel()
	usable, err := child.UsableCPUs()
	require.NoError(t, err)
	var cpus []int
	for cpu := range maxCPUs {
		if usable(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	const slots = 3
	f := setup(t)
	f.options.Slots, f.options.Seed = slots, 40
	for slot := range slots {
		f.options.CPUs = append(f.options.CPUs, []int{cpus[slot%len(cpus)]})
	}
	f.serve(f.program("yes"))
	for slot := range slots {
		proc := fmt.Sprintf("/proc/%d/", f.running(slot).pid())
		environ, err := os.ReadFile(proc + "environ")
		require.NoError(t, err)
		env := strings.Split(string(environ), "\x00")
		require.Contains(t, env, fmt.Sprintf("STINT_SLOT=%d", slot))
		require.Contains(t, env, fmt.Sprintf("STINT_SEED=%d", 40+slot))
		status, err := os.ReadFile(proc + "status")
		require.NoError(t, err)
		require.Contains(t, string(status), fmt.Sprintf("\nCpus_allowed_list:\t%d\n", cpus[slot%len(cpus)]))
	}
}
