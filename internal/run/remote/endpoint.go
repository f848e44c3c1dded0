package remote

import (
	"crypto/x509"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stint-run/stint/internal/run/command"
)

// DefaultMaxAnswer is how many bytes an answer may have unless the options say otherwise.
const DefaultMaxAnswer = 32 << 20

// Options say which requests an endpoint makes. Only URL, or Model, is needed.
type Options struct {
	Method  string   // default POST
	URL     string   // a template
	Headers []string // templates, each "Name: value"
	// Body is a template; default the item as JSON, and nothing for GET and DELETE. It is JSON, or a form if Headers
	// have that Content-Type.
	Body string
	// Array makes one request of all items of a call: its body is a JSON list of their bodies, and its answer must be
	// one of as many results. URL and Headers have no placeholders then.
	Array bool
	// Model makes requests to a model. Method, URL, Body and Array are not set then.
	Model *Model

	ResultPath string  // of the result in an answer, in the syntax of jq; default the whole answer
	Schema     *Schema // of results; a model gets it where its provider takes one
	MaxAnswer  int64   // bytes; default [DefaultMaxAnswer]

	Env         func(string) (string, bool) // of the worker, for $NAME in Headers
	Concurrency int                         // how many connections are kept; default 1
	// AllowOrigins are the origins (https://host:port) that may have addresses of the machine's own network. The
	// addresses of any other origin must be public.
	AllowOrigins []string
	RootCAs      *x509.CertPool // default those of the machine
}

// Endpoint makes requests. It is safe for concurrent use.
type Endpoint struct {
	method  string
	url     *urlTemplate
	headers []*headerTemplate
	plain   http.Header // those of all requests, if no header has a placeholder; nil otherwise
	content string      // Content-Type; "": there is no body
	body    body        // nil: none, or a model's
	array   bool
	model   *modelCalls // nil: none
	name    string      // of the endpoint in messages

	path      *resultPath
	schema    *Schema
	maxAnswer int64

	secrets redactor
	client  *http.Client
	worked  atomic.Bool // there has been a result: the URL is right
	now     func() time.Time
}

// New returns the endpoint, or why the options make none. It makes no connection.
func New(o Options) (*Endpoint, error) {
	e := &Endpoint{schema: o.Schema, maxAnswer: o.MaxAnswer, array: o.Array, now: time.Now}
	if e.maxAnswer <= 0 {
		e.maxAnswer = DefaultMaxAnswer
	}
	if o.Model != nil {
		if o.Method != "" || o.URL != "" || o.Body != "" || o.Array {
			return nil, errors.New("a model has a method, a URL and a body of its own: leave them out")
		}
		var err error
		if e.model, err = newModelCalls(o.Model, o.Schema, o.ResultPath); err != nil {
			return nil, err
		}
		e.array = o.Model.Embed
		o.Method, o.URL, o.Headers = http.MethodPost, e.model.url(), e.model.headers(o.Headers)
	}
	if err := e.compile(&o); err != nil {
		return nil, err
	}
	allowed := false
	for _, origin := range o.AllowOrigins {
		named, err := Origin(origin)
		if err != nil {
			return nil, fmt.Errorf("allowed origin %q: %w", origin, err)
		}
		allowed = allowed || named == e.url.origin
	}
	e.client = newClient(e.url.origin, allowed, max(1, o.Concurrency), o.RootCAs)
	return e, nil
}

func (e *Endpoint) compile(o *Options) (err error) {
	e.method = strings.ToUpper(o.Method)
	if e.method == "" {
		e.method = http.MethodPost
	}
	methods := []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	if !slices.Contains(methods, e.method) {
		return fmt.Errorf("method %q: use %s", o.Method, strings.Join(methods, ", "))
	}
	if e.url, err = parseURL(o.URL); err != nil {
		return err
	}
	for _, line := range o.Headers {
		h, err := parseHeader(line, o.Env, &e.secrets)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(e.headers, func(other *headerTemplate) bool { return other.name == h.name }) {
			return fmt.Errorf("header %s is given twice", h.name)
		}
		e.headers = append(e.headers, h)
	}
	if e.path, err = parsePath(o.ResultPath); err != nil {
		return err
	}
	if err := e.compileBody(o); err != nil {
		return err
	}
	if !slices.ContainsFunc(e.headers, func(h *headerTemplate) bool { return h.hasValue() }) {
		e.plain, _ = e.header(nil) // no item could make it fail
	}
	e.name = e.method + " " + e.url.String()
	return e.checkArray()
}

func (e *Endpoint) compileBody(o *Options) error {
	given, kind, err := e.contentType()
	if err != nil {
		return err
	}
	bare := e.method == http.MethodGet || e.method == http.MethodDelete
	switch {
	case e.model != nil && kind == "json":
	case e.model != nil:
		return errors.New("header Content-Type: requests to a model are JSON")
	case o.Body == "" && kind == "form":
		return errors.New("header Content-Type: a form needs a body, such as a={name}&b={value}")
	case o.Body == "" && bare && !o.Array:
		return nil
	case o.Body == "":
		e.body = wholeBody{}
	case kind == "form":
		text, err := command.ParseText(o.Body)
		if err != nil {
			return fmt.Errorf("body: %w", err)
		}
		e.body = formBody{text}
	default:
		if e.body, err = parseJSONBody(o.Body); err != nil {
			return err
		}
	}
	if !given {
		e.content = "application/json"
	}
	return nil
}

// contentType returns what the body is: "json" or "form". given: a header says so.
func (e *Endpoint) contentType() (given bool, kind string, err error) {
	for _, h := range e.headers {
		if h.name != "Content-Type" {
			continue
		}
		if h.hasValue() {
			return false, "", errors.New("header Content-Type has no placeholders: items do not choose it")
		}
		value, _ := h.of(nil)
		media, _, err := mime.ParseMediaType(value)
		switch {
		case err == nil && (media == "application/json" || strings.HasSuffix(media, "+json")):
			return true, "json", nil
		case err == nil && media == "application/x-www-form-urlencoded":
			return true, "form", nil
		}
		return false, "", fmt.Errorf("header Content-Type %q: bodies are JSON, or application/x-www-form-urlencoded",
			value)
	}
	return false, "json", nil
}

// checkArray returns why several items cannot share a request.
func (e *Endpoint) checkArray() error {
	if !e.array {
		return nil
	}
	const next = "has a placeholder, and a call has several items: put it into the body, or call items one by one"
	if e.url.fixed == nil {
		return errors.New("the URL " + next)
	}
	for _, h := range e.headers {
		if h.hasValue() {
			return fmt.Errorf("header %s %s", h.name, next)
		}
	}
	if _, form := e.body.(formBody); form {
		return errors.New("a form cannot hold several items: use JSON, or call items one by one")
	}
	return nil
}

// Several reports whether a request can have several items.
func (e *Endpoint) Several() bool { return e.array }

// MostItems is how many items a request may have: 1 unless Several, 0 if nothing is known of a limit.
func (e *Endpoint) MostItems() int {
	switch {
	case !e.array:
		return 1
	case e.model != nil:
		return e.model.provider.mostTexts()
	}
	return 0
}

// Origin returns the scheme, host and port that the endpoint calls.
func (e *Endpoint) Origin() string { return e.url.origin }

// Name returns the endpoint's method and URL, without the query.
func (e *Endpoint) Name() string { return e.name }

// Close closes idle connections. Requests that are under way are left alone.
func (e *Endpoint) Close() { e.client.CloseIdleConnections() }
