package gateway

import (
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// crowd opens idle connections, which their ends close.
func crowd(t *testing.T, s *served, n int) []net.Conn {
	t.Helper()
	all := make([]net.Conn, n)
	for i := range all {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		all[i] = c
	}
	return all
}

func TestD18_IdleConnectionsShutNobodyOut(t *testing.T) {
	t.Parallel()
	server, err := Listen("127.0.0.1:0", Options{Open: func(string) Feed { return &fake{} }})
	require.NoError(t, err)
	door := server.listener.(*door)
	door.most, door.strangers = 8, 4
	s, _, _ := serving(t, server, patience)
	ask := func() (reused bool) {
		r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused },
		}), http.MethodGet, s.url+"/v1/feeds/f", nil)
		require.NoError(t, err)
		answer, err := s.client.Do(r)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusOK, answer.StatusCode)
		return reused
	}
	idle := crowd(t, s, 50)
	require.False(t, ask(), "somebody new comes in")
	_, err = idle[0].Read(make([]byte, 1))
	require.Error(t, err, "the oldest had to go")
	crowd(t, s, 50)
	require.True(t, ask(), "who has been admitted stays")
	eventually(t, func() bool {
		door.mu.Lock()
		defer door.mu.Unlock()
		return len(door.open) <= door.strangers+1
	})
}

func TestD18_LimitsKeepBelowTheDescriptors(t *testing.T) {
	t.Parallel()
	for descriptors, want := range map[int][2]int{0: {maxConnections, maxStrangers}, 300: {225, 112}, 1 << 20: {maxConnections, maxStrangers}, 1: {1, 1}} {
		d := newDoor(nil, descriptors)
		require.Equal(t, want, [2]int{d.most, d.strangers}, descriptors)
	}
}

// Beyond all connections the oldest goes that has no request under way; if all have one, the new one.
func TestD18_BusyConnectionsStay(t *testing.T) {
	t.Parallel()
	d := newDoor(nil, 0)
	d.most = 2
	conns := make([]net.Conn, 4)
	for i := range conns {
		conns[i], _ = net.Pipe()
	}
	for _, c := range conns[:2] {
		require.Empty(t, d.enter(c))
		d.noteState(c, http.StateActive)
		d.open[c].admitted()
	}
	require.Equal(t, []net.Conn{conns[2]}, d.enter(conns[2]))
	d.noteState(conns[1], http.StateIdle)
	require.Equal(t, []net.Conn{conns[1]}, d.enter(conns[3]))
	d.noteState(conns[0], http.StateClosed)
	require.Len(t, d.open, 1)
}
