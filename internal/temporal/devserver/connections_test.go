package devserver

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/server/common"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
)

// waiting is a server that ends once its services' connections are cut.
type waiting struct{ cut chan struct{} }

func (w *waiting) Start() error { return nil }

func (w *waiting) Stop() error {
	<-w.cut
	return nil
}

// A call between the services that nobody answers does not hold up the end of the server.
func TestStop_CutsCallsOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &waiting{cut: make(chan struct{})}
		s := &Server{temporal: w, logger: newLogger(nil)}
		s.kept.add(w, func() { close(w.cut) })
		began := time.Now()
		s.Stop()
		require.Equal(t, callsTimeout, time.Since(began)) // the clock of a synctest bubble
	})
}

// Connections that services open while they end are closed too.
func TestConnections_AfterClose(t *testing.T) {
	t.Parallel()
	var c connections
	closed := 0
	c.add(1, func() { closed++ })
	c.add(1, func() { closed++ })
	c.close()
	c.add(2, func() { closed++ })
	c.close()
	require.Equal(t, 2, closed)
}

// dialling is a factory that counts its connections.
type dialling struct {
	common.RPCFactory
	t     *testing.T
	dials int
}

func (d *dialling) CreateLocalFrontendGRPCConnection() *grpc.ClientConn {
	return d.CreateRemoteFrontendGRPCConnection("local")
}

func (d *dialling) CreateRemoteFrontendGRPCConnection(address string) *grpc.ClientConn {
	d.dials++
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(d.t, err)
	return conn
}

// Requests for which the server makes a client of its own, as each start of a job is, open one connection together.
func TestD46_ConnectionsToAFrontendAreShared(t *testing.T) {
	t.Parallel()
	dials, kept := &dialling{t: t}, &connections{}
	f := &rpcFactory{RPCFactory: dials, kept: kept}
	local, remote := f.CreateLocalFrontendGRPCConnection(), f.CreateRemoteFrontendGRPCConnection("a")
	for range 10 {
		require.Same(t, local, f.CreateLocalFrontendGRPCConnection())
		require.Same(t, remote, f.CreateRemoteFrontendGRPCConnection("a"))
	}
	require.Equal(t, 2, dials.dials)
	require.NoError(t, remote.Close())
	again := f.CreateRemoteFrontendGRPCConnection("a")
	require.NotSame(t, remote, again, "one that somebody has closed is of no use")
	kept.close()
	require.Equal(t, connectivity.Shutdown, local.GetState())
	require.Equal(t, connectivity.Shutdown, again.GetState())
}
