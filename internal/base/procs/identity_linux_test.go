package procs

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A process that exists has not ended; one that has ended is known to, before and after its parent has collected it,
// and so is one whose number another process has now. Of other process tables nothing is known.
func TestEnded(t *testing.T) {
	t.Parallel()
	ended, known := Ended(Own())
	require.True(t, known)
	require.False(t, ended)

	child := exec.Command("sleep", "3600")
	require.NoError(t, child.Start())
	p, ok := Read(child.Process.Pid)
	require.True(t, ok)
	table, _, _ := strings.Cut(Own(), ":")
	name := nameOf(table, p.PID, p.Start)
	ended, known = Ended(name)
	require.True(t, known)
	require.False(t, ended)
	ended, _ = Ended(nameOf(table, p.PID, p.Start-1))
	require.True(t, ended, "it was another one")
	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	ended, known = Ended(name)
	require.True(t, known)
	require.True(t, ended)

	for _, name := range []string{"", "x", nameOf("other", p.PID, p.Start), table + ":x:1", table + ":1:"} {
		_, known := Ended(name)
		require.False(t, known, "%q", name)
	}
}
