package starter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/spf13/pflag"
	"github.com/stint-run/stint/internal/devserver"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"
)

// defaultState is where `stint run` and `stint server` keep their state.
const defaultState = ".stint"

// connection is how a command reaches Temporal: the standard TEMPORAL_* variables and TOML
// profiles, and flags over them. Where none of these says where, a `stint server` that keeps its
// state in this directory is taken.
type connection struct {
	address, namespace, profile string
}

func (c *connection) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.address, "address", "", "Temporal server, `HOST:PORT` (default $TEMPORAL_ADDRESS, the profile, a stint server of this directory, or localhost:7233)")
	fs.StringVar(&c.namespace, "namespace", "", "Temporal namespace (default $TEMPORAL_NAMESPACE, the profile, or default)")
	fs.StringVar(&c.profile, "profile", "", "profile of Temporal's configuration file (default $TEMPORAL_PROFILE, or default)")
}

// dialLimit is how long a server may take to answer at first.
const dialLimit = 5 * time.Second

// dial connects, or says which address did not answer and how to start a server.
func (c *connection) dial(ctx context.Context, p *Program, verbose bool) (sdkclient.Client, error) {
	options, err := c.options(p)
	if err != nil {
		return nil, err
	}
	options.Logger = sdkLogger(p.Stderr, verbose)
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	client, err := sdkclient.DialContext(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("no Temporal server answers at %s: %w\nStart one with 'stint server', or say where it is with --address or TEMPORAL_ADDRESS", options.HostPort, rootCause(err))
	}
	return client, nil
}

func (c *connection) options(p *Program) (sdkclient.Options, error) {
	options, err := envconfig.LoadClientOptions(envconfig.LoadClientOptionsRequest{
		ConfigFileProfile: c.profile, EnvLookup: p,
	})
	if err != nil {
		return options, usageError("reading Temporal's configuration: %v", err)
	}
	if c.address != "" {
		options.HostPort = c.address
	}
	if c.namespace != "" {
		options.Namespace = c.namespace
	}
	if options.HostPort == "" {
		options.HostPort = sdkclient.DefaultHostPort
		if holder, err := devserver.Holder(stateDir(p.path(defaultState))); err == nil && holder != nil && holder.Address != "" {
			options.HostPort = holder.Address
		}
	}
	if options.ConnectionOptions.GrpcCompression == nil {
		options.ConnectionOptions.GrpcCompression = compressionFor(options.HostPort)
	}
	return options, nil
}

// compressionFor leaves compression to the SDK, except to a server on this machine: there it would
// only cost both sides processor time, a fifth of what a batch costs.
func compressionFor(address string) sdkclient.GrpcCompression {
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && (host == "localhost" || ip.IsLoopback()) {
		return &sdkclient.GrpcCompressionNone{}
	}
	return nil
}

// rootCause is the end of a chain of errors, where the reason stands.
func rootCause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// newWorkerLogger logs what a worker has to say: what becomes of its slots, and what their programs
// write to their standard error.
func newWorkerLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// sdkLogger lets warnings through, or all when verbose.
func sdkLogger(w io.Writer, verbose bool) sdklog.Logger {
	return sdklog.NewStructuredLogger(newLogger(w, verbose))
}

// newLogger logs what the server and Temporal's SDK have to say: errors, or all when verbose.
func newLogger(w io.Writer, verbose bool) *slog.Logger {
	level := slog.LevelError
	if verbose {
		level = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}
