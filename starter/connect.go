package starter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/stint-run/stint/internal/base/backoff"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/temporal/devserver"
	"github.com/stint-run/stint/internal/temporal/lookup"
	"github.com/stint-run/stint/internal/web/page"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	"go.temporal.io/api/workflowservice/v1"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"
)

// defaultState is where `stint run` and `stint server` keep their state.
const defaultState = ".stint"

// connection is how a command reaches Temporal: the standard TEMPORAL_* variables and TOML
// profiles, and flags over them. If none of these gives an address, it is that of a `stint server` that
// keeps its state in this directory.
type connection struct {
	address, namespace, profile string
	ui                          string
	namespaceOf                 string // the one that is used; set by options
	hostPort                    string // the address that is used; set by options

	keys  codecKeys
	codec *jobs.Codec // set by options; nil: nothing is encrypted

	metrics sdkclient.MetricsHandler // gets what Temporal's SDK measures; nil: nobody does
}

func (c *connection) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.address, "address", "", "Temporal server, `HOST:PORT` (default $TEMPORAL_ADDRESS, the profile, a stint server of this directory, or localhost:7233)")
	fs.StringVar(&c.namespace, "namespace", "", "Temporal namespace (default $TEMPORAL_NAMESPACE, the profile, or default)")
	fs.StringVar(&c.profile, "profile", "", "profile of Temporal's configuration file (default $TEMPORAL_PROFILE, or default)")
	fs.StringVar(&c.ui, "ui", "", "`URL` of Temporal's web UI, for the addresses that are printed (default $"+uiVariable+", or that of a stint server of this directory)")
	c.keys.addFlags(fs)
}

// uiVariable has the address of the web UI if --ui does not give it.
const uiVariable = "STINT_UI"

// configured reports whether flags, environment or configuration name a server.
func (c *connection) configured(p *Program) bool {
	options, err := envconfig.LoadClientOptions(envconfig.LoadClientOptionsRequest{ConfigFileProfile: c.profile, EnvLookup: p})
	return err != nil || c.address != "" || options.HostPort != ""
}

// dialLimit is how long a server may take to answer at first.
const dialLimit = 5 * time.Second

// dial connects, or says which address did not answer and how to start a server.
func (c *connection) dial(ctx context.Context, p *Program, verbose bool) (sdkclient.Client, error) {
	options, err := c.options(p)
	if err != nil {
		return nil, err
	}
	options.Logger = sdklog.NewStructuredLogger(newLogger(p.Stderr, verbose))
	options.MetricsHandler = c.metrics
	options.ConnectionOptions.DialOptions = append(options.ConnectionOptions.DialOptions, worker.DialOption())
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	client, err := sdkclient.DialContext(ctx, options)
	if err != nil {
		return nil, &awayError{cause: err, text: fmt.Sprintf(
			"no Temporal server answers at %s: %v\n%s with --address or TEMPORAL_ADDRESS", options.HostPort, dialError(err), p.howToReachOne())}
	}
	return client, nil
}

// howToReachOne begins the advice for who reaches no server.
func (p *Program) howToReachOne() string {
	if !devserver.Linked {
		return "Give the address of one"
	}
	return "Start one with '" + p.name() + " server', or give its address"
}

func (c *connection) options(p *Program) (sdkclient.Options, error) {
	options, err := envconfig.LoadClientOptions(envconfig.LoadClientOptionsRequest{ConfigFileProfile: c.profile, EnvLookup: p})
	if err != nil {
		return options, usageError("reading Temporal's configuration: %v", err)
	}
	options.HostPort = cmp.Or(c.address, options.HostPort)
	options.Namespace = cmp.Or(c.namespace, options.Namespace)
	ui, _ := p.lookup(uiVariable)
	if holder, err := devserver.Holder(devserver.StateDir(p.path(defaultState))); err == nil && holder != nil && holder.Address != "" {
		options.HostPort = cmp.Or(options.HostPort, holder.Address)
		if options.HostPort == holder.Address {
			if ui == "" && c.ui == "" && holder.UI != "" {
				p.page = holder.UI + page.Path
			}
			ui = cmp.Or(ui, holder.UI)
		}
	}
	options.HostPort = cmp.Or(options.HostPort, sdkclient.DefaultHostPort)
	c.hostPort, p.server = options.HostPort, options.HostPort
	c.namespaceOf = cmp.Or(options.Namespace, sdkclient.DefaultNamespace)
	p.webUI(cmp.Or(c.ui, ui), c.namespaceOf)
	if c.codec, err = c.keys.read(p); err != nil {
		return options, err
	}
	if c.codec != nil {
		c.codec.Apply(&options)
	}
	if options.ConnectionOptions.GrpcCompression == nil {
		options.ConnectionOptions.GrpcCompression = compressionFor(options.HostPort)
	}
	return options, nil
}

// clientOf returns a client of jobs that uses a Temporal client which was made with these options.
func (c *connection) clientOf(temporal sdkclient.Client) *jobs.Client {
	options := &jobs.ClientOptions{Namespace: c.namespaceOf}
	if c.codec != nil {
		options.DataConverter = c.codec.DataConverter()
	}
	return jobs.NewClient(temporal, options)
}

// codecKeys is the file of the keys that encrypt what is sent to Temporal.
type codecKeys struct{ file string }

// codecKeyVariable names the file if --codec-key-file does not.
const codecKeyVariable = "STINT_CODEC_KEY_FILE"

func (k *codecKeys) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&k.file, "codec-key-file", "", "`FILE` of keys that encrypt all payloads in Temporal, 'ID BASE64' on each line, the first one encrypts (default $"+codecKeyVariable+", or no encryption)")
}

// read returns the codec of the keys; nil if no file is named.
func (k *codecKeys) read(p *Program) (*jobs.Codec, error) {
	file := k.file
	if file == "" {
		file, _ = p.lookup(codecKeyVariable)
	}
	if file == "" {
		return nil, nil
	}
	codec, err := jobs.ReadCodec(p.path(file))
	if err != nil {
		return nil, usageError("%w", err)
	}
	return codec, nil
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

// dialError says why a server cannot be reached, in the words of the operating system. gRPC leaves only a text of the
// error.
func dialError(err error) error {
	text := rootCause(err).Error()
	if strings.Contains(text, context.DeadlineExceeded.Error()) {
		return errors.New("no answer in time")
	}
	_, reason, found := strings.Cut(text, "transport: Error while dialing: ")
	if !found {
		return rootCause(err)
	}
	words := strings.Split(strings.TrimSuffix(reason, `"`), ": ")
	return errors.New(words[len(words)-1])
}

// rootCause returns the end of a chain of errors: it has the reason.
func rootCause(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}

// newLogger makes a log: of the server and Temporal's SDK for errors, or everything when verbose; of a worker, which is
// verbose, for events of its slots and the standard error of their programs.
func newLogger(w io.Writer, verbose bool) *slog.Logger {
	level := slog.LevelError
	if verbose {
		level = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

// serverPatience is how long a command that stays, such as a worker, waits at its start for a server that does not
// answer.
type serverPatience struct{ limit time.Duration }

const (
	defaultPatience = 24 * time.Hour
	// waitingEvery is how often a command says what it waits for; dialEvery is how long it waits between tries.
	waitingEvery = time.Minute
	dialEvery    = time.Second
)

func (w *serverPatience) addFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&w.limit, "wait-for-server", defaultPatience, "how long to wait at the start for a Temporal server that does not answer; 0 ends at once")
}

// errInterrupted says that a command was to end before it had begun its work.
var errInterrupted = errors.New("interrupted")

// dial is connection.dial, and tries again while the server does not answer. It returns errInterrupted at the first
// signal.
func (w *serverPatience) dial(ctx context.Context, p *Program, c *connection, verbose bool) (sdkclient.Client, error) {
	if w.limit < 0 {
		return nil, usageError("--wait-for-server %v: use a duration from 0 on", w.limit)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	signals := p.Signals
	watching := trap.Go("waiting for signals", func() error {
		select {
		case <-signals:
			cancel(errInterrupted)
			return errInterrupted
		case <-ctx.Done():
			return nil
		}
	})
	client, err := w.await(ctx, p, c, verbose)
	cancel(nil)
	// A signal that came in the last moment has been taken from the channel, and counts.
	if interrupted := <-watching; interrupted != nil {
		if err == nil {
			client.Close()
		}
		return nil, interrupted
	}
	return client, err
}

// withServer dials and runs fn with a client of jobs. A signal before that ends the command: it has nothing in hand.
func (w *serverPatience) withServer(
	ctx context.Context, p *Program, c *connection, verbose bool, fn func(*jobs.Client) error,
) error {
	client, err := w.dial(ctx, p, c, verbose)
	switch {
	case errors.Is(err, errInterrupted):
		return nil
	case err != nil:
		return err
	}
	defer client.Close()
	return fn(c.clientOf(client))
}

// await dials until the server answers, ctx ends, or the limit has passed.
func (w *serverPatience) await(ctx context.Context, p *Program, c *connection, verbose bool) (sdkclient.Client, error) {
	began, said := time.Now(), time.Time{}
	for {
		client, err := c.dial(ctx, p, verbose)
		if err == nil {
			if err = c.serves(ctx, client); err == nil {
				return client, nil
			}
			client.Close()
		}
		switch {
		case context.Cause(ctx) != nil:
			return nil, context.Cause(ctx)
		case !lookup.Away(err), time.Since(began) >= w.limit:
			return nil, err
		case said.IsZero() || time.Since(said) >= waitingEvery:
			said = time.Now()
			reason, _, _ := strings.Cut(err.Error(), "\n")
			fmt.Fprintf(p.Stderr, "waiting for the server, until %s (--wait-for-server %v): %s\n", began.Add(w.limit).Format(time.DateTime), w.limit, reason)
		}
		backoff.Wait(min(dialEvery, w.limit-time.Since(began)), ctx.Done())
	}
}

// serves returns an error while the server is there, and cannot do anything yet, or not any more.
func (c *connection) serves(ctx context.Context, client sdkclient.Client) error {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	_, err := client.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: c.namespaceOf})
	if !lookup.Away(err) {
		return nil // what else is wrong, is said by what follows
	}
	return &awayError{text: fmt.Sprintf("the Temporal server at %s is not ready: %v", c.hostPort, rootCause(err)), cause: err}
}

// awayError says that a server does not answer, in words for people. The cause is the client's error.
type awayError struct {
	text  string
	cause error
}

func (e *awayError) Error() string { return e.text }
func (e *awayError) Unwrap() error { return e.cause }

// sayWhoIsLate puts what it means in the place of a client's "context deadline exceeded".
func (p *Program) sayWhoIsLate(err error, text string) string {
	if p.server == "" || !lookup.Away(err) {
		return text
	}
	return strings.ReplaceAll(text, context.DeadlineExceeded.Error(), fmt.Sprintf("the Temporal server at %s has taken the request and not answered it in time: "+
		"its database may be away, or it is too busy; try again in some seconds", p.server))
}
