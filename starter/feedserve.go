package starter

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/feedstore"
	"github.com/stint-run/stint/internal/base/loopback"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/web/endpoint"
	"github.com/stint-run/stint/internal/web/gateway"
	"github.com/stint-run/stint/internal/web/page"
	"github.com/stint-run/stint/internal/web/tokens"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
)

type serveOptions struct {
	connection connection
	patience   serverPatience
	listen     string
	tokens     string
	drain      time.Duration
	requests   int
	allow      []string
	page       bool
	verbose    bool
}

func newFeedServe(p *Program) *cobra.Command {
	o := &serveOptions{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve feeds over HTTP, for programs in any language",
		Long: `Lets programs in any language use feeds ('stint start --feed'): they put items and get results over HTTP,
as JSON values. /openapi.json describes all requests.

  POST /v1/feeds/NAME/put?wait=5s        items in; all of a list, or none, is accepted
  POST /v1/feeds/NAME/call?timeout=60s   items in, results out as they come, in order
  GET  /v1/feeds/NAME                    the feed's state
  GET  /v1/feeds/NAME/results?follow=true&cursor=C   what it has recorded, in order
  POST /v1/feeds/NAME/reset, /close      the next session; no more items

A body with 'Content-Type: application/json' is one item; otherwise each line is one. Requests are
read piece by piece, so a body may be of any length.

With --token-file, requests need the header 'Authorization: Bearer TOKEN'. The file has a token on each
line and is read again when it changes. Without it, it listens on this machine only.

Results above 64 KiB, and those of /results, are in the feeds' stores: it reads stores below the roots
that --allow names. Without it such a result is a StoredError.

SIGTERM or Ctrl-C ends it: it takes no more requests, and those under way have --drain to finish.
A second signal ends it at once. /health, /readyz, /livez and /metrics need no token.`,
		Example: `  stint feed serve --listen 127.0.0.1:8080
  curl -H 'Content-Type: application/json' -d '"a bird"' http://127.0.0.1:8080/v1/feeds/risk/call
  curl --data-binary @items.jsonl http://127.0.0.1:8080/v1/feeds/risk/put?wait=5s`,
		Args: wrongArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), p) },
	}
	fs := cmd.Flags()
	fs.StringVar(&o.listen, "listen", "127.0.0.1:8080", "`ADDR` to listen on, HOST:PORT, or PORT for this machine only (port 0: a free one)")
	fs.StringVar(&o.tokens, "token-file", "", "`FILE` of tokens, one on each line; a request needs one of them (default: none is needed)")
	fs.DurationVar(&o.drain, "drain", 30*time.Second, "how long requests under way may take once it is to end")
	fs.IntVar(&o.requests, "requests", gateway.DefaultRequests, "how many requests for feeds may be under way at once; each takes up to some 6 MB")
	fs.StringArrayVar(&o.allow, "allow", nil, "`ROOT` below which stores of feeds are read: a directory or a bucket URL; repeatable; all: whatever the credentials reach (default: none is read)")
	fs.BoolVar(&o.page, "page", false, "serve stint's page, too, at /stint, with the same tokens ('stint ui --help')")
	o.connection.addFlags(fs)
	o.patience.addFlags(fs)
	fs.BoolVarP(&o.verbose, "verbose", "v", false, "log what happens, too")
	return cmd
}

// maxServedRequests bounds --requests.
const maxServedRequests = 100_000

func (o *serveOptions) run(ctx context.Context, p *Program) error {
	address, err := endpoint.Address("--listen", o.listen)
	if err != nil {
		return usageError("%w", err)
	}
	if o.drain < 0 {
		return usageError("--drain %v: use 0 or more", o.drain)
	}
	if o.requests < 1 || o.requests > maxServedRequests {
		return usageError("--requests %d: use 1 to %d", o.requests, maxServedRequests)
	}
	roots, err := absoluteRoots(o.allow, p.Dir)
	if err != nil {
		return err
	}
	if len(roots) > 1 && slices.Contains(roots, worker.AllowAll) {
		return usageError("--allow %s makes the other roots useless: use it alone", worker.AllowAll)
	}
	log := newLogger(p.Stderr, true)
	options := gateway.Options{Requests: o.requests, Log: log}
	if o.tokens != "" {
		if options.Tokens, err = tokens.Read(p.path(o.tokens), log); err != nil {
			return usageError("--token-file: %w", err)
		}
	}
	if err := gateway.Check(address, options); err != nil {
		return usageError("--listen %s: %w (--token-file FILE)", o.listen, err)
	}
	return o.patience.withServer(ctx, p, &o.connection, o.verbose, func(client *jobs.Client) error {
		return o.serve(ctx, p, client, roots, address, options)
	})
}

// serve serves the feeds of the client, whose stores lie below the roots.
func (o *serveOptions) serve(
	ctx context.Context, p *Program, client *jobs.Client, roots []string, address string, options gateway.Options,
) error {
	var feed jobs.FeedOptions
	if len(roots) > 0 {
		results := feedstore.New(feedstore.Options{Allow: slices.DeleteFunc(slices.Clone(roots), func(root string) bool { return root == worker.AllowAll })})
		defer results.Close()
		feed.Store = results
	}
	options.Open = func(name string) gateway.Feed {
		return jobs.NewFeed[gateway.Value, gateway.Value](client, name, feed)
	}
	if o.page {
		looks, closePage, err := o.newPage(p, client, roots, address, options)
		if err != nil {
			return err
		}
		defer closePage()
		options.Page, options.PagePath, options.ClosePage = looks, page.Path, looks.Close
	}
	server, err := gateway.Listen(address, options)
	if err != nil {
		return err
	}
	ctx, end := p.draining(ctx, "ending (%v): requests under way get %v", o.drain)
	defer end()
	if o.page {
		fmt.Fprintf(p.Stderr, "page: http://%s%s\n", server.Address(), page.Path)
	}
	fmt.Fprintf(p.Stderr, "gateway: http://%s\n", server.Address())
	return server.Serve(ctx, o.drain)
}

// newPage returns the page that is served with the feeds, and what closes it.
func (o *serveOptions) newPage(p *Program, client *jobs.Client, roots []string, address string, options gateway.Options) (*page.Page, func(), error) {
	looks := page.Options{Client: client, Tokens: options.Tokens, Loopback: loopback.Is(address), Temporal: p.ui, Program: p.name(), Log: options.Log}
	if len(roots) > 0 {
		looks.Access = &store.Access{Allow: slices.DeleteFunc(slices.Clone(roots), func(root string) bool { return root == worker.AllowAll })}
	}
	shown, err := page.New(looks)
	return shown, func() {
		if shown != nil {
			shown.Close()
		}
		if looks.Access != nil {
			_ = looks.Access.Close() // it only reads
		}
	}, err
}
