package devserver

import (
	"errors"
	"fmt"
	"net"
	"time"

	otelresource "go.opentelemetry.io/otel/sdk/resource"
	oteltrace "go.opentelemetry.io/otel/sdk/trace"
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

	"github.com/stint-run/stint/internal/trap"
)

// clusterName is what the server calls itself in its own records. It is part of
// the state on disk.
const clusterName = "active"

// listeners are the bound ports of the server's services.
type listeners map[primitives.ServiceName]net.Listener

// modules are the services that make up the server, as temporal/fx.go of the
// server puts them together.
var modules = map[primitives.ServiceName]fx.Option{
	primitives.FrontendService: frontend.Module,
	primitives.HistoryService:  fx.Options(history.QueueModule, history.Module, replication.Module),
	primitives.MatchingService: matching.Module,
	primitives.WorkerService:   worker.Module,
}

// newTemporal assembles the server. It differs from temporal.NewServer in that
// its services serve listeners that are bound already, so that ports can neither
// be lost nor end the process, and in that it never exports traces.
func newTemporal(on listeners, sql *config.SQL, push bool, logger *logger, kept *connections) (temporal.Server, error) {
	top := []fx.Option{temporal.TopLevelModule, fx.Replace([]oteltrace.SpanExporter{})}
	for name := range modules {
		top = append(top, fx.Provide(service(name, on[name], kept)))
	}
	server, err := temporal.NewServerFx(
		fx.Options(top...),
		temporal.WithConfig(serverConfig(on, sql)),
		temporal.WithLogger(logger),
		temporal.WithDynamicConfigClient(dynamicConfig(push)),
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
			// What spans would say of this process. Finding that out fails for a user without an entry in passwd, and without /proc.
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
