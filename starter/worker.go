package starter

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/worker"
)

type workerCommand struct {
	worker     workerOptions
	connection connection
	pool       string
	verbose    bool
}

func newWorker(p *Program) *cobra.Command {
	o := &workerCommand{}
	cmd := &cobra.Command{
		Use:   "worker --pool POOL (--exec COMMAND | --serve COMMAND)",
		Short: "Serve a pool",
		Long: `Polls Temporal for the batches of a pool's jobs and runs the command over them. Any number of
workers, on any number of machines, may serve a pool. SIGTERM or Ctrl-C drains the worker: running
batches finish the call in hand and hand the rest back, so that jobs go on elsewhere at once; once
more ends it at once.`,
		Example: `  stint worker --pool upper --exec 'tr a-z A-Z' --slots 8
  stint worker --pool score --serve 'python3 model.py' --slots 4 --cpus '0;1;2;3'`,
		Args: wrongArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), p) },
	}
	o.worker.addFlags(cmd.Flags())
	o.connection.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.pool, "pool", "", "the pool to serve, [a-z0-9][a-z0-9-]*")
	cmd.Flags().BoolVarP(&o.verbose, "verbose", "v", false, "log what happens, too")
	return cmd
}

// metricsNote tells where the endpoint of --metrics is.
const metricsNote = "metrics: http://%s/metrics"

func (o *workerCommand) run(ctx context.Context, p *Program) error {
	handler, err := o.worker.handler(p)
	if err != nil {
		return err
	}
	if o.pool == "" {
		return usageError("which pool? Give --pool NAME")
	}
	if err := job.CheckName("pool", o.pool); err != nil {
		return usageError("%v", err)
	}
	c, err := o.connection.dial(ctx, p, o.verbose)
	if err != nil {
		return err
	}
	defer c.Close()
	options := o.worker.options
	options.Logger = newWorkerLogger(p.Stderr)
	w, err := worker.New(c, o.pool, handler, options)
	if err != nil {
		return usageError("%v", err)
	}
	ctx, drain := context.WithCancel(ctx)
	defer drain()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-ended:
			return
		case s := <-p.Signals:
			fmt.Fprintf(p.Stderr, "draining (%v): running batches get %v; once more to end at once\n", s, options.Drain)
			drain()
		}
		select {
		case <-ended:
		case <-p.Signals:
			p.Exit(ExitInterrupted)
		}
	}()
	if address := w.MetricsAddress(); address != "" {
		fmt.Fprintf(p.Stderr, metricsNote+"\n", address)
	}
	fmt.Fprintf(p.Stderr, "serving pool %s with %s\n", o.pool, handler.Name())
	return w.Run(ctx)
}
