package page

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/web/tokens"
	"github.com/stint-run/stint/jobs"
)

// Path is where the page is on its server; what lies below belongs to it.
const Path = "/stint"

// apiPath is where the API is.
const apiPath = Path + "/api/v1"

// Options configure a page. The zero value of a field means its default.
type Options struct {
	// Client asks the server. Nil: [Page.Use] names it later, and until then the page says that the server starts.
	Client *jobs.Client
	// Tokens are those of which a request needs one. Nil: none is needed.
	Tokens *tokens.Tokens
	// Loopback: the page can be reached from this machine only, so Host and Origin of requests are checked.
	Loopback bool
	// Actions has people stop and change jobs. It needs Tokens.
	Actions bool
	// Access reads the stores of jobs, for examples of failed items. Nil: there are none. The caller closes it.
	Access *store.Access
	// Temporal is where Temporal's web UI has the namespace: "/namespaces/default", or a whole URL. Empty: not known.
	Temporal string
	// Program is the name of the program in commands. Default: "stint".
	Program string
	// Log gets what goes wrong on the page's side. Default: nothing is logged.
	Log *slog.Logger
}

// Page answers requests for all that is below [Path]. It must be closed.
type Page struct {
	options Options
	client  atomic.Pointer[jobs.Client]
	mux     *http.ServeMux
	routes  []route
	hub     *hub
	known   memories
}

// route is one method of one path.
type route struct {
	method, path string
	open         bool // needs no token
	page         bool // an answer for people, who are asked for a token if they have none
	handle       func(http.ResponseWriter, *http.Request)
}

// New returns a page. The error is about its options.
func New(o Options) (*Page, error) {
	if o.Actions && o.Tokens == nil {
		return nil, errors.New("a page with actions needs tokens")
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.Program = cmp.Or(o.Program, "stint")
	p := &Page{options: o, mux: http.NewServeMux()}
	p.hub = newHub(func(err error) { p.options.Log.Error("a page is not kept up to date", "error", err) })
	p.client.Store(o.Client)
	p.routes = []route{
		{method: http.MethodGet, path: Path, page: true, handle: redirect},
		{method: http.MethodGet, path: Path + "/{$}", page: true, handle: p.listPage},
		{method: http.MethodGet, path: Path + "/jobs/{name}", page: true, handle: p.jobPage},
		{method: http.MethodGet, path: Path + "/workers", page: true, handle: p.workersPage},
		{method: http.MethodPost, path: Path + "/login", open: true, page: true, handle: p.login},
		{method: http.MethodGet, path: Path + "/assets/{file}", open: true, handle: p.asset},
	}
	p.routes = append(p.routes, p.apiRoutes()...)
	for _, r := range p.routes {
		p.mux.Handle(r.method+" "+r.path, p.admitted(r))
	}
	p.mux.Handle(Path+"/", p.admitted(route{page: true, handle: func(w http.ResponseWriter, _ *http.Request) {
		p.missing(w, "There is nothing at this address.")
	}}))
	return p, nil
}

// Use names the client that asks the server, once there is one.
func (p *Page) Use(client *jobs.Client) { p.client.Store(client) }

// Close ends all live updates. It can be repeated.
func (p *Page) Close() { p.hub.close() }

// ServeHTTP is one of http.Handler.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// errStarting says that there is no client yet.
var errStarting = errors.New("the server is starting")

// ask returns the client.
func (p *Page) ask() (*jobs.Client, error) {
	if client := p.client.Load(); client != nil {
		return client, nil
	}
	return nil, errStarting
}

func redirect(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, Path+"/", http.StatusMovedPermanently)
}

func (p *Page) listPage(w http.ResponseWriter, r *http.Request) {
	p.show(w, r, "jobs", p.listSource(r, false))
}

func (p *Page) jobPage(w http.ResponseWriter, r *http.Request) { p.show(w, r, "job", p.jobSource(r)) }

func (p *Page) workersPage(w http.ResponseWriter, r *http.Request) {
	p.show(w, r, "workers", p.workersSource())
}

// source is where what a page shows comes from.
type source struct {
	key string // the same for all pages that show the same
	// ask also returns how many requests to the server that took.
	ask func(ctx context.Context) (said any, asks int, err error)
	// view makes what the template gets of an answer.
	view func(answer any) any
	// events is the address of the live updates.
	events string
	title  string
	err    error // of the request
}

// answerLimit is how long all that a page shows may take to be asked for.
const answerLimit = 15 * time.Second

// answer asks, for a limited time.
func (s source) answer(ctx context.Context) (said any, asks int, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	return s.ask(ctx)
}
