package devserver

import (
	"net"
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
