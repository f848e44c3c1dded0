package starter

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stint-run/stint/internal/base/loopback"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/web/endpoint"
	"github.com/stint-run/stint/internal/web/page"
	"github.com/stint-run/stint/internal/web/tokens"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
)

// pageOptions are the flags of a command that serves the page.
type pageOptions struct {
	tokens  string
	actions bool
}

func (o *pageOptions) addFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.actions, "allow-actions", false, "let the page stop, resume, redrive, pause and set jobs; requests need a token then: one of --token-file, or one that is made and printed")
	fs.StringVar(&o.tokens, "token-file", "", "`FILE` of tokens for the page, one on each line; a request needs one of them (default: none is needed)")
}

// options returns those of the page, and the token that was made for it; "": none.
func (o *pageOptions) options(p *Program) (options page.Options, made string, err error) {
	options = page.Options{Actions: o.actions, Program: p.name(), Log: newLogger(p.Stderr, true)}
	switch {
	case o.tokens != "":
		if options.Tokens, err = tokens.Read(p.path(o.tokens), options.Log); err != nil {
			return options, "", usageError("--token-file: %w", err)
		}
	case o.actions:
		options.Tokens, made = tokens.Made()
	}
	return options, made, nil
}

// pageNote prints where the page is: with a token that was made for it, if there is one.
func (p *Program) pageNote(url, made string) {
	if made != "" {
		url += "/?token=" + made
	}
	fmt.Fprintf(p.Stderr, "page:            %s\n", url)
}

type uiOptions struct {
	connection connection
	patience   serverPatience
	page       pageOptions
	listen     string
	allow      []string
	verbose    bool
}

func newUI(p *Program) *cobra.Command {
	o := &uiOptions{}
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Serve a page to look at: jobs, how far they are, what has failed, workers",
		Long: `Serves stint's page beside any Temporal server: all jobs, live; of each job how far it is, how fast it was over
its life, what has failed, with examples, and what each worker does; and workers and pools. 'stint server' and
'stint run' serve it themselves, at /stint of their web UI. It loads nothing from elsewhere, and asks the server for
nothing while nobody has it open. Its JSON API is described at /stint/api/v1/openapi.json.

It listens on this machine only, unless --token-file names a file of tokens, one on each line. With
--allow-actions it has buttons that stop, resume, redrive, pause and set jobs; without, it shows the commands.

Examples of failed items come from the jobs' stores: those that this account can read, or, if it listens on other
addresses, those below --allow.`,
		Example: `  stint ui
  stint ui --address temporal.example.com:7233 --allow-actions
  stint ui --listen 0.0.0.0:8300 --token-file tokens --allow s3://data`,
		Args: wrongArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), p) },
	}
	fs := cmd.Flags()
	fs.StringVar(&o.listen, "listen", "127.0.0.1:8300", "`ADDR` to listen on, HOST:PORT, or PORT for this machine only (port 0: a free one)")
	o.page.addFlags(fs)
	fs.StringArrayVar(&o.allow, "allow", nil, "`ROOT` below which stores of jobs are read for examples of failed items: a directory or a bucket URL; repeatable; all: whatever the credentials reach (default: all on this machine only, otherwise none)")
	o.connection.addFlags(fs)
	o.patience.addFlags(fs)
	fs.BoolVarP(&o.verbose, "verbose", "v", false, "log what happens, too")
	return cmd
}

func (o *uiOptions) run(ctx context.Context, p *Program) error {
	address, err := endpoint.Address("--listen", o.listen)
	if err != nil {
		return usageError("%w", err)
	}
	roots, err := absoluteRoots(o.allow, p.Dir)
	if err != nil {
		return err
	}
	if len(roots) > 1 && slices.Contains(roots, worker.AllowAll) {
		return usageError("--allow %s makes the other roots useless: use it alone", worker.AllowAll)
	}
	options, made, err := o.page.options(p)
	if err != nil {
		return err
	}
	if err := page.Check(address, options); err != nil {
		return usageError("--listen %s: %w (--token-file FILE)", o.listen, err)
	}
	if len(roots) > 0 || loopback.Is(address) {
		options.Access = &store.Access{Allow: slices.DeleteFunc(roots, func(root string) bool { return root == worker.AllowAll })}
		defer options.Access.Close()
	}
	return o.patience.withServer(ctx, p, &o.connection, o.verbose, func(client *jobs.Client) error {
		options.Client, options.Temporal = client, p.ui
		server, err := page.Listen(address, options)
		if err != nil {
			return err
		}
		ctx, end := p.untilSignal(ctx)
		defer end()
		p.pageNote("http://"+server.Address()+page.Path, made)
		return server.Serve(ctx)
	})
}

// reportCommand writes a job's page into a file.
type reportCommand struct {
	connection connection
	output     string
}

func newReport(p *Program) *cobra.Command {
	o := &reportCommand{}
	cmd := &cobra.Command{
		Use:   "report JOB -o FILE.html",
		Short: "Write a job's page into one file, to be sent or kept",
		Long: `Writes the page that 'stint ui' shows of a job into one HTML file: it loads nothing and needs no server. Of a
running job it has what is known now. Examples of failed items are in it, so it has parts of the job's data.`,
		Example: `  stint report nightly -o nightly.html
  stint report nightly -o - | mail -s nightly -a 'Content-Type: text/html' me@example.com`,
		Args: jobArg(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.output == "" {
				return usageError("no file is named: add -o FILE.html, or -o - for the standard output")
			}
			return o.connection.withClient(cmd.Context(), p, func(ctx context.Context, client *jobs.Client) error {
				return o.write(ctx, p, client, args[0])
			})
		},
	}
	o.connection.addFlags(cmd.Flags())
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "`FILE` to write, which is replaced; - for the standard output")
	return cmd
}

func (o *reportCommand) write(ctx context.Context, p *Program, client *jobs.Client, name string) error {
	access := &store.Access{}
	defer access.Close()
	looks, err := page.New(page.Options{Client: client, Access: access, Program: p.name(), Temporal: p.ui})
	if err != nil {
		return err
	}
	defer looks.Close()
	var file bytes.Buffer
	if err := looks.WriteReport(ctx, name, &file); err != nil {
		return err
	}
	if o.output == "-" {
		return printLine(p.Stdout, file.Bytes())
	}
	if err := os.WriteFile(p.path(o.output), file.Bytes(), 0o666); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}
