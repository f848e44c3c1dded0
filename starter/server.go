package starter

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stint-run/stint/internal/base/loopback"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/temporal/devserver"
	"github.com/stint-run/stint/internal/temporal/search"
	"github.com/stint-run/stint/internal/web/page"
	"github.com/stint-run/stint/jobs"
	sdkclient "go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
)

type serverOptions struct {
	state        string
	ip           string
	port, uiPort int
	page         pageOptions
	verbose      bool
	flags        *pflag.FlagSet
}

func newServer(p *Program) *cobra.Command {
	o := &serverOptions{}
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run a Temporal server with stint's page and its web UI in this process",
		Long: `Runs a Temporal server, kept in --state, for workers and jobs of this machine (or, with --ip, of
others: it has no authentication). At /stint of its web UI it serves stint's page ('stint ui --help'). It ends with SIGTERM or Ctrl-C and can be killed at any time:
started again it continues.`,
		Args: wrongArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), p) },
	}
	fs := cmd.Flags()
	o.flags = fs
	fs.StringVar(&o.state, "state", defaultState, "`DIR` for the server's state")
	fs.StringVar(&o.ip, "ip", "127.0.0.1", "address to bind")
	fs.IntVar(&o.port, "port", devserver.AnyPort, "port of the server (default: 7233, or a free one)")
	fs.IntVar(&o.uiPort, "ui-port", devserver.AnyPort, "port of the web UI (default: 8233, or a free one; 0: no web UI)")
	fs.Lookup("port").DefValue, fs.Lookup("ui-port").DefValue = zeroDefault, zeroDefault
	o.page.addFlags(fs)
	fs.BoolVarP(&o.verbose, "verbose", "v", false, "log what happens, too")
	return cmd
}

// Paths of the web UI that lead to lists of jobs.
const jobsPath, troublePath = "/jobs", "/trouble"

// usualPort is that of a Temporal server: where a command that knows of no other one looks for it.
const usualPort = 7233

// portNote says how commands reach the server if those that name none would reach another one, at the usual port;
// empty: they reach it.
func (o *serverOptions) portNote(address, program string) string {
	_, port, err := net.SplitHostPort(address)
	if o.port != devserver.AnyPort || err != nil || port == strconv.Itoa(usualPort) {
		return ""
	}
	who := "commands that name no server talk to what listens there"
	if filepath.Clean(o.state) == defaultState {
		who = fmt.Sprintf("only in this directory do '%s' commands find this server by themselves; elsewhere they talk to what listens there", program)
	}
	return fmt.Sprintf("port %d is in use: %s. To reach this server:\n  export TEMPORAL_ADDRESS=%s", usualPort, who, address)
}

// checkPort refuses an invalid port.
func checkPort(fs *pflag.FlagSet, flag string, port int) error {
	if port > 65535 || port < 0 && fs.Changed(flag) {
		return usageError("--%s %d: a port is 1 to 65535", flag, port)
	}
	return nil
}

// newPage returns the page, which knows its client later, and the token that was made for it. It reads stores with access
// if it can be reached from this machine only.
func (o *serverOptions) newPage(p *Program, access *store.Access) (*page.Page, string, error) {
	options, made, err := o.page.options(p)
	if err != nil {
		return nil, "", err
	}
	options.Temporal = "/namespaces/" + devserver.DefaultNamespace
	if loopback.Is(o.ip) {
		options.Loopback, options.Access = true, access
	}
	looks, err := page.New(options)
	return looks, made, err
}

func (o *serverOptions) run(ctx context.Context, p *Program) error {
	if err := cmp.Or(checkPort(o.flags, "port", o.port), checkPort(o.flags, "ui-port", o.uiPort)); err != nil {
		return err
	}
	codec, err := new(codecKeys).read(p)
	if err != nil {
		return err
	}
	access := &store.Access{}
	defer access.Close()
	looks, made, err := o.newPage(p, access)
	if err != nil {
		return err
	}
	defer looks.Close()
	server, err := devserver.Start(ctx, devserver.Options{
		SearchAttributes: search.Types(), Dir: devserver.StateDir(p.path(o.state)), IP: o.ip, Port: o.port, UIPort: o.uiPort,
		PreferPort: usualPort, PreferUIPort: 8233, PowerSafe: true, Logger: newLogger(p.Stderr, o.verbose),
		Lists: map[string]string{jobsPath: jobs.JobsQuery, troublePath: jobs.TroubleQuery},
		Note:  func(text string) { fmt.Fprintln(p.Stderr, text) },
		Page:  looks, PagePath: page.Path,
	})
	if err != nil {
		return err
	}
	defer server.Stop()
	if url := server.UIURL(); url != "" {
		options := sdkclient.Options{HostPort: server.Address(), Namespace: server.Namespace(), Logger: sdklog.NewStructuredLogger(newLogger(p.Stderr, false))}
		if codec != nil {
			codec.Apply(&options)
		}
		temporal, err := sdkclient.DialContext(ctx, options)
		if err != nil {
			return fmt.Errorf("connecting the page: %w", err)
		}
		defer temporal.Close()
		looks.Use((&connection{namespaceOf: server.Namespace(), codec: codec}).clientOf(temporal))
		p.pageNote(url+page.Path, made)
	}
	fmt.Fprintf(p.Stderr, "Temporal server: %s\n", server.Address())
	if note := o.portNote(server.Address(), p.name()); note != "" {
		fmt.Fprintln(p.Stderr, note)
	}
	if url := server.UIURL(); url != "" {
		fmt.Fprintf(p.Stderr, "web UI:          %s\n", url)
		fmt.Fprintf(p.Stderr, "jobs, no legs:   %s\n", url+jobsPath)
		fmt.Fprintf(p.Stderr, "jobs in trouble: %s\n", url+troublePath)
	}
	select {
	case <-ctx.Done():
	case <-p.Signals:
	}
	return nil
}
