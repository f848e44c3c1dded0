package starter

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/temporal/devserver"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
)

type workerCommand struct {
	worker     workerOptions
	connection connection
	patience   serverPatience
	pool       string
	verbose    bool
}

func newWorker(p *Program) *cobra.Command {
	o := &workerCommand{}
	cmd := &cobra.Command{
		Use:   "worker --pool POOL --allow ROOT… (--exec COMMAND | --serve COMMAND)",
		Short: "Serve a pool",
		Long: `Polls Temporal for the batches of a pool's jobs and runs the handler over them. Any number of
workers, on any number of machines, may serve a pool. SIGTERM or Ctrl-C drains the worker: running
batches finish the call in hand and hand the rest back, so that jobs continue elsewhere at once. A
second signal ends it at once. While Temporal does not answer the worker waits, also at its start.

Whoever can start a job reads and writes with the worker's account below each --allow ROOT, and
nowhere else (docs/security.md). --allow all permits everything that the account can reach: use it only
if everybody who can start a job may have that.`,
		Example: `  stint worker --pool upper --allow /data --exec 'tr a-z A-Z' --slots 8
  stint worker --pool score --allow s3://models/ --serve 'python3 model.py' \
      --slots 4 --cpus '0;1;2;3'`,
		Args: wrongArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), p) },
	}
	o.worker.addFlags(cmd.Flags(), p)
	o.worker.http.mustName = true
	o.connection.addFlags(cmd.Flags())
	o.patience.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.worker.flagged.Name, "name", o.worker.flagged.Name, "what the worker is called in reports, followed by the number of its process (default: the host's name)")
	cmd.Flags().StringVar(&o.worker.flagged.Version, "version", o.worker.flagged.Version, "`VERSION` of the handler, for --pin, manifests and reports (default: a hash of the command and of its files)")
	cmd.Flags().StringVar(&o.pool, "pool", "", "the pool to serve, [a-z0-9][a-z0-9-]*")
	cmd.Flags().BoolVarP(&o.verbose, "verbose", "v", false, "log what happens, too")
	return cmd
}

// metricsNote prints the address of the endpoint of --metrics.
const metricsNote = "metrics: http://%s/metrics"

func (o *workerCommand) run(ctx context.Context, p *Program) error {
	if err := refuseEmpty(o.worker.flags, "pool"); err != nil {
		return err
	}
	handler, err := o.worker.handler(p)
	if err != nil {
		return err
	}
	if o.pool == "" {
		return usageError("no pool given: use --pool NAME")
	}
	if err := limits.CheckName("pool", o.pool); err != nil {
		return usageError("%w", err)
	}
	if len(o.worker.options.Allow) == 0 {
		return usageError("no --allow given: whoever can start a job reads and writes with this worker's account, so name each directory or "+
			"bucket prefix that jobs use, such as --allow %s, or say --allow %s for everything that the account reaches", p.Dir, worker.AllowAll)
	}
	if o.worker.options.Metrics != "" {
		if err := o.connection.exposeSDK(p, &o.worker.options); err != nil {
			return err
		}
	}
	sent, err := p.traced(ctx, &o.worker.options)
	if err != nil {
		return err
	}
	defer sent()
	return o.patience.withServer(ctx, p, &o.connection, o.verbose, func(client *jobs.Client) error {
		return o.serve(ctx, p, client, handler)
	})
}

// serve runs the worker until it has drained.
func (o *workerCommand) serve(ctx context.Context, p *Program, client *jobs.Client, handler worker.Handler) error {
	options := o.worker.options
	options.Logger = newLogger(p.Stderr, true)
	options.Protect = append(slices.Clone(options.Protect), devserver.StateDir(p.path(defaultState)))
	w, err := worker.New(client, o.pool, handler, options)
	if err != nil {
		return usageError("%w", err)
	}
	ctx, end := p.draining(ctx, "draining (%v): running batches get %v", options.Drain)
	defer end()
	if address := w.MetricsAddress(); address != "" {
		fmt.Fprintf(p.Stderr, metricsNote+"\n", address)
	}
	with := " with " + handler.Name()
	if p.builtIn() {
		with = ""
	}
	running := trap.Go("running the worker", func() error { return w.Run(ctx) })
	select {
	case err := <-running:
		return err
	case <-w.Ready():
		fmt.Fprintf(p.Stderr, "serving pool %s%s\n", o.pool, with)
		return <-running
	}
}
