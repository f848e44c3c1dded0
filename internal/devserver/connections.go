package devserver

import (
	"net"
	"sync"

	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/server/common"
	"go.temporal.io/server/common/sdk"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

// connections are the client connections between the server's services, which
// the server opens and never closes. Left alone, each would hold goroutines for
// the life of the process and dial a port that belongs to somebody else by then.
type connections struct {
	mu     sync.Mutex
	open   map[any]func()
	closed bool
}

// add has closing called once, however often the same connection is added; at once after close, because services
// that end may still open connections.
func (c *connections) add(connection any, closing func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		closing()
		return
	}
	if c.open == nil {
		c.open = map[any]func(){}
	}
	c.open[connection] = closing
}

// close closes all connections. It may be called more than once.
func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, closing := range c.open {
		closing()
	}
	c.open, c.closed = nil, true
}

func (c *connections) keep(conn *grpc.ClientConn) *grpc.ClientConn {
	if conn != nil {
		c.add(conn, func() { _ = conn.Close() })
	}
	return conn
}

// rpcFactory gives a service its bound listener and keeps its connections.
//
// The server makes a new connection to a frontend for some requests, ListSearchAttributes among them, which every start of a job
// makes, and never closes it. Here there is one connection to each address, which all of them use.
type rpcFactory struct {
	common.RPCFactory
	listener net.Listener
	kept     *connections

	mu        sync.Mutex
	frontends map[string]*grpc.ClientConn // by address; "" is the local one
}

// frontend returns the connection to a frontend, which connect makes if there is none.
func (f *rpcFactory) frontend(address string, connect func() *grpc.ClientConn) *grpc.ClientConn {
	f.mu.Lock()
	defer f.mu.Unlock()
	if conn := f.frontends[address]; conn != nil && conn.GetState() != connectivity.Shutdown {
		return conn
	}
	if f.frontends == nil {
		f.frontends = map[string]*grpc.ClientConn{}
	}
	f.frontends[address] = f.kept.keep(connect())
	return f.frontends[address]
}

// GetGRPCListener implements common.RPCFactory.
func (f *rpcFactory) GetGRPCListener() net.Listener { return f.listener }

// CreateRemoteFrontendGRPCConnection implements common.RPCFactory.
func (f *rpcFactory) CreateRemoteFrontendGRPCConnection(address string) *grpc.ClientConn {
	return f.frontend(address, func() *grpc.ClientConn { return f.RPCFactory.CreateRemoteFrontendGRPCConnection(address) })
}

// CreateLocalFrontendGRPCConnection implements common.RPCFactory.
func (f *rpcFactory) CreateLocalFrontendGRPCConnection() *grpc.ClientConn {
	return f.frontend("", f.RPCFactory.CreateLocalFrontendGRPCConnection)
}

// CreateHistoryGRPCConnection implements common.RPCFactory.
func (f *rpcFactory) CreateHistoryGRPCConnection(address string) *grpc.ClientConn {
	return f.kept.keep(f.RPCFactory.CreateHistoryGRPCConnection(address))
}

// CreateMatchingGRPCConnection implements common.RPCFactory.
func (f *rpcFactory) CreateMatchingGRPCConnection(address string) *grpc.ClientConn {
	return f.kept.keep(f.RPCFactory.CreateMatchingGRPCConnection(address))
}

// sdkFactory keeps the connection of a service's SDK clients, which they share
// with the system client.
type sdkFactory struct {
	sdk.ClientFactory
	kept *connections
}

// NewClient implements sdk.ClientFactory.
func (f *sdkFactory) NewClient(options sdkclient.Options) sdkclient.Client {
	f.GetSystemClient()
	return f.ClientFactory.NewClient(options)
}

// GetSystemClient implements sdk.ClientFactory.
func (f *sdkFactory) GetSystemClient() sdkclient.Client {
	client := f.ClientFactory.GetSystemClient()
	f.kept.add(client, client.Close)
	return client
}
