package devserver

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// occupy binds a free port for the length of the test.
func occupy(t *testing.T) (address string, port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String(), l.Addr().(*net.TCPAddr).Port
}

func TestOccupiedPortIsNamed(t *testing.T) {
	t.Parallel()
	address, port := occupy(t)
	for _, c := range []struct {
		options Options
		what    string
		text    string
	}{
		{Options{Port: port}, "Temporal frontend", "Temporal frontend: " + address + " is in use: stop what uses it, or choose another port (--port)"},
		{Options{UIPort: port}, "web UI", "web UI: " + address + " is in use: stop what uses it, or choose another port (--ui-port)"},
	} {
		dir := filepath.Join(t.TempDir(), "state")
		c.options.Dir, c.options.Logger = dir, silent
		_, err := Start(t.Context(), c.options)
		var taken *PortError
		require.ErrorAs(t, err, &taken)
		require.Equal(t, c.what, taken.What)
		require.Equal(t, address, taken.Addr)
		require.ErrorIs(t, err, syscall.EADDRINUSE)
		require.EqualError(t, taken, c.text)

		// Nothing is left behind: the directory can be used at once.
		setup(t, Options{Dir: dir}).Stop()
	}
}

func TestForeignAddressIsNamed(t *testing.T) {
	t.Parallel()
	// An address that is reserved for documentation.
	_, err := Start(t.Context(), Options{IP: "192.0.2.1", Logger: silent})
	require.ErrorAs(t, err, new(*PortError))
	require.ErrorContains(t, err, "--ip")
}

func TestPortOnRequest(t *testing.T) {
	t.Parallel()
	first := setup(t, Options{UIPort: AnyPort})
	_, port, err := net.SplitHostPort(first.Address())
	require.NoError(t, err)
	number, err := net.LookupPort("tcp", port)
	require.NoError(t, err)
	first.Stop()

	second := setup(t, Options{Port: number})
	require.Equal(t, first.Address(), second.Address())
}

func TestPreferredPort(t *testing.T) {
	t.Parallel()
	_, taken := occupy(t)
	l, err := listen(frontendWhat, "127.0.0.1", AnyPort, taken)
	require.NoError(t, err)
	free := l.Addr().(*net.TCPAddr).Port
	require.NotEqual(t, taken, free)
	require.NoError(t, l.Close())

	l, err = listen(frontendWhat, "127.0.0.1", AnyPort, free)
	require.NoError(t, err)
	require.Equal(t, free, l.Addr().(*net.TCPAddr).Port)
	require.NoError(t, l.Close())
}

func TestReachable(t *testing.T) {
	t.Parallel()
	for ip, want := range map[string]string{
		"127.0.0.1": "127.0.0.1",
		"0.0.0.0":   "127.0.0.1",
		"::1":       "::1",
		"::":        "::1",
	} {
		l, err := listen(frontendWhat, ip, AnyPort, 0)
		if err != nil {
			continue // no such protocol on this machine
		}
		host, _, err := net.SplitHostPort(reachable(l))
		require.NoError(t, err)
		require.Equal(t, want, host, ip)
		conn, err := net.Dial("tcp", reachable(l))
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		require.NoError(t, l.Close())
	}
}

func TestAllInterfaces(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{IP: "0.0.0.0", UIPort: AnyPort})
	host, _, err := net.SplitHostPort(s.Address())
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", host)
	startWaiting(t, dial(t, s), "w")
}
