//go:build !noserver

package devserver

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"time"

	otelresource "go.opentelemetry.io/otel/sdk/resource"
	oteltrace "go.opentelemetry.io/otel/sdk/trace"
	sdkclient "go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/server/common"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/membership/static"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/common/sdk"
	"go.temporal.io/server/service/frontend"
	"go.temporal.io/server/service/history"
	"go.temporal.io/server/service/history/replication"
	"go.temporal.io/server/service/matching"
	"go.temporal.io/server/service/worker"
	"go.temporal.io/server/temporal"
	"go.uber.org/dig"
	"go.uber.org/fx"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/stint-run/stint/internal/base/trap"
)

// clusterName is what the server calls itself in its own records. It is part of the state on disk.
const clusterName = "active"

// listeners are the bound ports of the server's services.
type listeners map[primitives.ServiceName]net.Listener

// modules are the services that make up the server, as temporal/fx.go of the server puts them together.
var modules = map[primitives.ServiceName]fx.Option{
	primitives.FrontendService: frontend.Module,
	primitives.HistoryService:  fx.Options(history.QueueModule, history.Module, replication.Module),
	primitives.MatchingService: matching.Module,
	primitives.WorkerService:   worker.Module,
}

// newTemporal assembles the server. It differs from temporal.NewServer in that its services serve listeners that are
// bound already, so that ports can neither be lost nor end the process, and in that it never exports traces.
func newTemporal(on listeners, sql *config.SQL, o Options, logger *logger, kept *connections) (temporal.Server, error) {
	top := []fx.Option{temporal.TopLevelModule, fx.Replace([]oteltrace.SpanExporter{})}
	for name := range modules {
		if name == primitives.WorkerService && o.NoSystemWorker {
			continue // the others want to know where it is, and never call it
		}
		top = append(top, fx.Provide(service(name, on[name], kept)))
	}
	server, err := temporal.NewServerFx(
		fx.Options(top...),
		temporal.WithConfig(serverConfig(on, sql)),
		temporal.WithLogger(logger),
		temporal.WithDynamicConfigClient(dynamicConfig(!o.NoPush)),
		temporal.WithStaticHosts(hosts(on)),
		// None of the services that the server would assemble by itself.
		temporal.ForServices(nil),
	)
	if err != nil {
		return nil, dig.RootCause(err) // before it come pages about who needed what
	}
	return server, nil
}

type serviceProvider func(temporal.ServiceProviderParamsCommon) (temporal.ServicesGroupOut, error)

func service(name primitives.ServiceName, l net.Listener, kept *connections) serviceProvider {
	return func(params temporal.ServiceProviderParamsCommon) (temporal.ServicesGroupOut, error) {
		extra := fx.Options()
		if name == primitives.FrontendService {
			extra = fx.Supply(params.CustomFrontendInterceptors)
		}
		app := fx.New(
			params.GetCommonServiceOptions(name),
			modules[name],
			extra,
			// What spans would say of this process. Finding that out fails for a user without an entry in passwd, and
			// without /proc.
			fx.Replace(otelresource.Empty()),
			fx.Decorate(func(f common.RPCFactory) common.RPCFactory {
				return &rpcFactory{RPCFactory: f, listener: l, kept: kept}
			}),
			fx.Decorate(func(f sdk.ClientFactory) sdk.ClientFactory { return &sdkFactory{f, kept} }),
		)
		return temporal.NewService(app, name, params.Logger), app.Err()
	}
}

func hosts(on listeners) map[primitives.ServiceName]static.Hosts {
	all := make(map[primitives.ServiceName]static.Hosts, len(on))
	for name, l := range on {
		all[name] = static.SingleLocalHost(reachable(l))
	}
	return all
}

func serverConfig(on listeners, sql *config.SQL) *config.Config {
	services := make(map[string]config.Service, len(on))
	for name, l := range on {
		services[string(name)] = config.Service{RPC: config.RPC{
			GRPCPort: l.Addr().(*net.TCPAddr).Port,
			BindOnIP: l.Addr().(*net.TCPAddr).IP.String(),
		}}
	}
	address := reachable(on[primitives.FrontendService])
	return &config.Config{
		Global: config.Global{
			Membership: config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: "127.0.0.1"},
		},
		Persistence: config.Persistence{
			DefaultStore:     sqliteplugin.PluginName,
			VisibilityStore:  sqliteplugin.PluginName,
			NumHistoryShards: 1,
			DataStores:       map[string]config.DataStore{sqliteplugin.PluginName: {SQL: sql}},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        clusterName,
			CurrentClusterName:       clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{
				clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: address},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services:            services,
		Archival: config.Archival{
			History:    config.HistoryArchival{State: "disabled"},
			Visibility: config.VisibilityArchival{State: "disabled"},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: "disabled"},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"},
		}},
		PublicClient: config.PublicClient{HostPort: address},
	}
}

// guard runs f and turns a call of the logger's Fatal inside it into an error.
func guard(logger *logger, f func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errors.New("ended early")
		defer func() {
			if text := logger.fatal(); text != "" {
				err = fmt.Errorf("%s", text)
			}
			done <- err
		}()
		err = trap.Call("running the server", f)
	}()
	return <-done
}

// nameBinary gives the SDK a name for this program. Without one the first worker of the process, which is one inside
// the server, reads the whole executable for a checksum: a third of a second for a program that contains a server.
var nameBinary = sync.OnceFunc(func() {
	if name := binaryName(); name != "" {
		sdkworker.SetBinaryChecksum(name)
	}
})

// binaryName differs from build to build, which is all that the SDK asks of it: it marks reset points in histories.
func binaryName() string {
	name := ""
	if path, err := os.Executable(); err == nil { // otherwise there is no /proc, and the SDK would panic
		if file, err := os.Stat(path); err == nil {
			name = fmt.Sprint(file.Size(), file.ModTime().UnixNano())
		}
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		name += info.String()
	}
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16])
}

// connections are the client connections between the server's services, which the server opens and never closes. Left
// alone, each would hold goroutines for the life of the process and dial a port that belongs to somebody else by then.
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
// The server makes a new connection to a frontend for some requests, ListSearchAttributes among them, which every start
// of a job makes, and never closes it. Here there is one connection to each address, which all of them use.
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

// sdkFactory keeps the connection of a service's SDK clients, which they share with the system client.
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
