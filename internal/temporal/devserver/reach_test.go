package devserver

import (
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// R15: where there is no network at all, not even with itself, a server says so at once.
func TestR15_NoLoopback(t *testing.T) {
	t.Parallel()
	require.NoError(t, checkReach(net.DialTimeout))
	err := checkReach(func(network, _ string, _ time.Duration) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ENETUNREACH}
	})
	require.ErrorIs(t, err, syscall.ENETUNREACH)
	require.ErrorContains(t, err, "ip link set lo up")
}

// A machine that is so busy that a connection to itself takes seconds has a loopback interface: it gets more time than
// that, and no wrong advice.
func TestReach_BusyMachine(t *testing.T) {
	t.Parallel()
	err := checkReach(func(network, _ string, limit time.Duration) (net.Conn, error) {
		require.GreaterOrEqual(t, limit, 20*time.Second)
		return nil, &net.OpError{Op: "dial", Net: network, Err: os.ErrDeadlineExceeded}
	})
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.ErrorContains(t, err, "the machine is overloaded")
	require.NotContains(t, err.Error(), "ip link")
}
