// Package gateway lets programs in any language use feeds, over HTTP.
//
//	gateway.go  what it is made of; routes; the feeds in use; the description of all this; counts
//	server.go   listening, its connections, the graceful end
//	admit.go    who may: Host and Origin, tokens
//	body.go     reading requests, piece by piece, and those that need no body
//	put.go      requests to put items
//	call.go     requests with results, and what one has in hand
//	results.go  requests for what has been recorded
//	answer.go   writing answers
//	problem.go  errors, as clients see them
package gateway

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/run/meters"
	"github.com/stint-run/stint/internal/web/endpoint"
	"github.com/stint-run/stint/internal/web/tokens"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

// Value is an item or a result: a JSON value.
type Value = json.RawMessage

// Feed is what the gateway needs of a client of a feed: a *jobs.Feed[Value, Value], whose methods say what holds for
// these. It is used by many goroutines at once.
type Feed interface {
	PutWait(ctx context.Context, limit time.Duration, items ...Value) error
	Call(ctx context.Context, item Value) (Value, error)
	Stream(ctx context.Context, items iter.Seq[Value], o jobs.StreamOptions) iter.Seq2[jobs.Result[Value, Value], error]
	Results(ctx context.Context, from jobs.FeedCursor, o jobs.ResultsOptions) iter.Seq2[jobs.RecordedResult[Value], error]
	State(ctx context.Context) (job.FeedState, error)
	Reset(ctx context.Context) (jobs.FeedReset, error)
	Close(ctx context.Context) error
	Release()
}

var _ Feed = (*jobs.Feed[Value, Value])(nil)

// Options configure a gateway.
type Options struct {
	// Open returns a client of the feed of that name. It does not ask the server. The gateway releases it.
	Open func(name string) Feed
	// Tokens are those of which a request needs one. Default: none is needed.
	Tokens *tokens.Tokens
	// Loopback: the gateway listens on this machine only, so Host and Origin of requests are checked.
	Loopback bool
	// Requests is how many requests for feeds may be under way at once; more are refused. Default: [DefaultRequests].
	Requests int
	// Page answers requests for what is at PagePath and below it. Nil: there is nothing.
	Page http.Handler
	// PagePath is a path such as "/stint".
	PagePath string
	// ClosePage ends those answers of the page that have no end of their own: it is called when the server begins to end.
	// Nil: there are none.
	ClosePage func()
	// Log gets what goes wrong on the gateway's side.
	Log *slog.Logger
}

const (
	// DefaultRequests is how many requests for feeds may be under way at once. Each takes up to some 6 MB.
	DefaultRequests = 256

	// maxWait and maxTimeout bound what requests may ask for.
	maxWait    = time.Hour
	maxTimeout = 24 * time.Hour
)

// Gateway answers requests. It must be closed.
type Gateway struct {
	options Options
	feeds   *feeds
	meters  *requestMeters
	places  chan struct{} // one for each request under way
	own     http.Handler  // metrics and health
	routes  []route
	mux     *http.ServeMux
	ending  atomic.Bool
	pause   time.Duration // see maxPause
	reading time.Duration // see writeLimit
	rest    time.Duration // see bodyLimit
}

// route is one method of one path.
type route struct {
	name   string // in metrics
	method string
	path   string // as http.ServeMux takes it
	open   bool   // needs no token, and no place
	items  bool   // its requests have bodies
	handle func(*answer, *http.Request)
}

// New returns a gateway.
func New(o Options) (*Gateway, error) {
	o.Requests = cmp.Or(max(o.Requests, 0), DefaultRequests)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	m, metrics, err := newMeters(o.Log)
	if err != nil {
		return nil, err
	}
	g := &Gateway{
		options: o, feeds: newFeeds(o.Open), meters: m, places: make(chan struct{}, o.Requests), mux: http.NewServeMux(), pause: maxPause, reading: writeLimit, rest: bodyLimit,
	}
	ready := func() (any, bool) { h := g.health(); return h, h.Healthy }
	g.own = endpoint.Routes(metrics, ready, func() (any, bool) { return g.health(), true })
	g.routes = []route{
		{name: "put", method: http.MethodPost, path: "/v1/feeds/{name}/put", items: true, handle: g.put},
		{name: "call", method: http.MethodPost, path: "/v1/feeds/{name}/call", items: true, handle: g.call},
		{name: "state", method: http.MethodGet, path: "/v1/feeds/{name}", handle: g.plain(stateOf)},
		{name: "results", method: http.MethodGet, path: "/v1/feeds/{name}/results", handle: g.results},
		{name: "reset", method: http.MethodPost, path: "/v1/feeds/{name}/reset", handle: g.plain(reset)},
		{name: "close", method: http.MethodPost, path: "/v1/feeds/{name}/close", handle: g.plain(closeFeed)},
		{name: "openapi", method: http.MethodGet, path: "/openapi.json", open: true, handle: describe},
		{name: "health", method: http.MethodGet, path: "/health", open: true, handle: g.ours},
		{name: "readyz", method: http.MethodGet, path: "/readyz", open: true, handle: g.ours},
		{name: "livez", method: http.MethodGet, path: "/livez", open: true, handle: g.ours},
		{name: "metrics", method: http.MethodGet, path: "/metrics", open: true, handle: g.ours},
	}
	for _, r := range g.routes {
		g.mux.Handle(r.method+" "+r.path, g.serve(r))
		g.mux.Handle(r.path, g.serve(route{name: "other", open: true, handle: wrongMethod(r.method)}))
	}
	if o.Page != nil {
		g.mux.Handle(o.PagePath, o.Page)
		g.mux.Handle(o.PagePath+"/", o.Page)
	}
	g.mux.Handle("/", g.serve(route{name: "other", open: true, handle: unknownPath}))
	return g, nil
}

// ServeHTTP is one of http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.mux.ServeHTTP(w, r) }

// Close releases the feeds: whoever waits for one gets an error. It can be repeated.
func (g *Gateway) Close() { g.feeds.close() }

// serve admits, answers and counts the requests of a route.
func (g *Gateway) serve(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &answer{ResponseWriter: w, reading: g.reading}
		g.meters.begin(rt.name)
		defer func() { g.meters.end(rt.name, a.status) }()
		err := g.admit(rt, r)
		if err == nil && !rt.open && !rt.items {
			err = skipBody(a, r)
		}
		if err != nil {
			a.fail(err)
			return
		}
		if !rt.open {
			noteAdmitted(r)
			select {
			case g.places <- struct{}{}:
				defer func() { <-g.places }()
			default:
				a.fail(&requestError{status: http.StatusServiceUnavailable, kind: "BusyError", message: "too many requests are under way: try again, or start the gateway with larger --requests"})
				return
			}
		}
		rt.handle(a, r)
	})
}

// withFeed runs fn with the feed that a request names.
func (g *Gateway) withFeed(r *http.Request, fn func(Feed) error) error {
	name := r.PathValue("name")
	if limits.CheckName("job", name) != nil {
		return &jobs.NotFoundError{Name: name}
	}
	feed, done, err := g.feeds.take(name)
	if err != nil {
		return err
	}
	defer done()
	return fn(feed)
}

// stateAnswer is the answer to a request for a feed's state.
type stateAnswer struct {
	Name string `json:"name"`
	job.FeedState
	Idle bool `json:"idle"` // everything accepted is done
	Full bool `json:"full"` // the capacity, in items or in bytes, is taken
}

func stateOf(r *http.Request, f Feed) (any, error) {
	state, err := f.State(r.Context())
	return stateAnswer{
		Name: r.PathValue("name"), FeedState: state, Idle: state.Backlog == 0,
		Full: state.Backlog >= state.Capacity || state.BacklogBytes >= state.CapacityBytes,
	}, err
}

// resetAnswer is the answer to a reset.
type resetAnswer struct {
	Session   int64 `json:"session"`   // that has begun
	Discarded int64 `json:"discarded"` // items that were waiting
}

func reset(r *http.Request, f Feed) (any, error) {
	done, err := f.Reset(r.Context())
	return resetAnswer{Session: done.Session, Discarded: done.Discarded}, err
}

func closeFeed(r *http.Request, f Feed) (any, error) { return struct{}{}, f.Close(r.Context()) }

// plain answers requests that have no parameters with what ask returns.
func (g *Gateway) plain(ask func(*http.Request, Feed) (any, error)) func(*answer, *http.Request) {
	return func(a *answer, r *http.Request) {
		var said any
		_, err := parameters(r)
		if err == nil {
			err = g.withFeed(r, func(f Feed) (err error) { said, err = ask(r, f); return err })
		}
		if err != nil {
			a.fail(err)
			return
		}
		a.json(http.StatusOK, said)
	}
}

// parameters returns those of a request, after checking that it has none but the allowed ones, and each at most once.
func parameters(r *http.Request, allowed ...string) (url.Values, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badRequest("invalid parameters: %v", err)
	}
	for name, given := range values {
		switch {
		case len(allowed) == 0:
			return nil, badRequest("unknown parameter %q: there are none here", name)
		case !slices.Contains(allowed, name):
			return nil, badRequest("unknown parameter %q: there is %s", name, strings.Join(allowed, ", "))
		case len(given) > 1:
			return nil, badRequest("parameter %s is given %d times", name, len(given))
		}
	}
	return values, nil
}

// health is the gateway's own.
type health struct {
	Healthy  bool   `json:"healthy"`
	State    string `json:"state"`    // serving or draining
	Requests int    `json:"requests"` // for feeds, under way
}

func (g *Gateway) health() health {
	h := health{Healthy: true, State: "serving", Requests: len(g.places)}
	if g.ending.Load() {
		h.Healthy, h.State = false, "draining"
	}
	return h
}

// ours answers requests for metrics and health.
func (g *Gateway) ours(a *answer, r *http.Request) { g.own.ServeHTTP(a, r) }

func wrongMethod(method string) func(*answer, *http.Request) {
	return func(a *answer, r *http.Request) {
		a.Header().Set("Allow", method)
		a.fail(&requestError{status: http.StatusMethodNotAllowed, kind: typeInvalidRequest, message: "use " + method + " for " + r.URL.Path})
	}
}

func unknownPath(a *answer, r *http.Request) {
	a.fail(&requestError{status: http.StatusNotFound, kind: typeInvalidRequest, message: "there is nothing at " + r.URL.Path + ": see /openapi.json"})
}

// document describes the gateway, by the OpenAPI specification.
//
//go:embed openapi.json
var document []byte

func describe(a *answer, _ *http.Request) { a.send(http.StatusOK, document) }

// maxIdle is how many feeds are kept ready for the next request.
const maxIdle = 64

// feeds are the feeds in use, and those used last. Requests for one feed share a client, so that what they send goes to
// the feed in a few exchanges.
type feeds struct {
	open func(name string) Feed

	mu     sync.Mutex
	known  map[string]*shared
	idle   int
	closed bool
}

type shared struct {
	Feed
	users int
	last  time.Time // used
}

func newFeeds(open func(name string) Feed) *feeds {
	return &feeds{open: open, known: map[string]*shared{}}
}

// take returns the feed of that name, until done is called.
func (f *feeds) take(name string) (feed Feed, done func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, nil, &jobs.FeedError{Code: jobs.CodeReleased}
	}
	s := f.known[name]
	switch {
	case s == nil:
		s = &shared{Feed: f.open(name)}
		f.known[name] = s
	case s.users == 0:
		f.idle--
	}
	s.users++
	return s.Feed, func() { f.done(s) }, nil
}

func (f *feeds) done(s *shared) {
	if old := f.idler(s); old != nil {
		old.Release()
	}
}

// idler notes that a request does not use a feed any more. It returns the feed that is to be released for that, or nil.
func (f *feeds) idler(s *shared) *shared {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.users--
	s.last = time.Now()
	if s.users > 0 || f.closed {
		return nil
	}
	if f.idle++; f.idle <= maxIdle {
		return nil
	}
	oldest := ""
	for name, other := range f.known {
		if other.users == 0 && (oldest == "" || other.last.Before(f.known[oldest].last)) {
			oldest = name
		}
	}
	old := f.known[oldest]
	delete(f.known, oldest)
	f.idle--
	return old
}

// close releases all feeds.
func (f *feeds) close() {
	f.mu.Lock()
	f.closed = true
	known := f.known
	f.known = nil
	f.mu.Unlock()
	for _, s := range known {
		s.Release()
	}
}

// requestMeters counts requests and items.
type requestMeters struct {
	requests metric.Int64Counter
	inFlight metric.Int64UpDownCounter
	items    metric.Int64Counter
	results  metric.Int64Counter
}

// newMeters returns meters, and the handler that serves them to Prometheus.
func newMeters(log *slog.Logger) (*requestMeters, http.Handler, error) {
	provider, handler, err := meters.NewPrometheus(log)
	if err != nil {
		return nil, nil, err
	}
	meter := provider.Meter("stint/gateway")
	m := &requestMeters{}
	var errs [4]error
	m.requests, errs[0] = meter.Int64Counter("stint_gateway_requests", metric.WithDescription("Requests answered, by route and status."))
	m.inFlight, errs[1] = meter.Int64UpDownCounter("stint_gateway_requests_in_flight", metric.WithDescription("Requests under way."))
	m.items, errs[2] = meter.Int64Counter("stint_gateway_items_put", metric.WithDescription("Items put that were accepted, and items called."))
	m.results, errs[3] = meter.Int64Counter("stint_gateway_results", metric.WithDescription("Outcomes of items that clients were given."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, nil, err
	}
	m.put(0)
	m.given(0)
	return m, handler, nil
}

func routeLabel(route string) attribute.KeyValue { return attribute.String("route", route) }

func (m *requestMeters) begin(route string) {
	m.inFlight.Add(context.Background(), 1, metric.WithAttributes(routeLabel(route)))
}

func (m *requestMeters) end(route string, status int) {
	m.inFlight.Add(context.Background(), -1, metric.WithAttributes(routeLabel(route)))
	m.requests.Add(context.Background(), 1, metric.WithAttributes(routeLabel(route), attribute.String("status", strconv.Itoa(status))))
}

func (m *requestMeters) put(items int64)     { m.items.Add(context.Background(), items) }
func (m *requestMeters) given(results int64) { m.results.Add(context.Background(), results) }
