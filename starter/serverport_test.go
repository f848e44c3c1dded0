package starter

import (
	"testing"

	"github.com/stint-run/stint/internal/temporal/devserver"
	"github.com/stretchr/testify/require"
)

// A server that had to take another port says how to reach it: commands that name no server would talk to the other
// one.
func TestD37_ASecondServerSaysHowToReachIt(t *testing.T) {
	t.Parallel()
	const address = "127.0.0.1:40001"
	const line = "\n  export TEMPORAL_ADDRESS=" + address
	for _, c := range []struct {
		o       serverOptions
		address string
		says    string // besides the line; empty: nothing
	}{
		{serverOptions{state: defaultState, port: devserver.AnyPort}, "127.0.0.1:7233", ""},
		{serverOptions{state: defaultState, port: devserver.AnyPort}, address, "only in this directory do 'stint' commands find this server"},
		{serverOptions{state: "./.stint/", port: devserver.AnyPort}, address, "only in this directory"},
		{serverOptions{state: "/var/lib/stint", port: devserver.AnyPort}, address, "commands that name no server talk to what listens there"},
		{serverOptions{state: defaultState, port: 40001}, address, ""},
	} {
		got := c.o.portNote(c.address, "stint")
		if c.says == "" {
			require.Empty(t, got)
			continue
		}
		require.Contains(t, got, "port 7233 is in use: ")
		require.Contains(t, got, c.says)
		require.Contains(t, got, line)
	}
}
