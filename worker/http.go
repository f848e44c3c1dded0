package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/command"
	"github.com/stint-run/stint/internal/run/remote"
	"github.com/stint-run/stint/job"
)

// HTTPOptions say which requests are made of items, and what of their answers is the result. URL is needed, or LLM.
//
// URL, Body, Prompt, System and the values of Headers are templates: they have the placeholders of [CommandOptions].Words.
// In a body, which is JSON, a placeholder inside quotes is the value as text, and one outside is the value in JSON; in a
// URL values are percent-encoded, and choose neither the host nor where a path begins or ends.
type HTTPOptions struct {
	// Method is GET, POST (default), PUT, PATCH or DELETE.
	Method string
	URL    string
	// Headers are lines such as "Authorization: Bearer $TOKEN": $TOKEN is a variable of Env, which no log, error or
	// report shows, and $$ a dollar.
	Headers []string
	// Body is JSON, or a form if Headers have that Content-Type. Default: the item as JSON; GET and DELETE have none.
	Body string
	// Array makes one request of up to Options.CallItems items, 64 unless that is set: a JSON list of their bodies. The
	// answer must be a list of as many results.
	Array bool

	// LLM asks a model, in place of Method, URL, Body and Array: openai, anthropic or gemini, with the key in
	// OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY of Env, or the URL of a server with OpenAI's API, such as
	// http://127.0.0.1:8000/v1 (of one with another API anthropic=URL or gemini=URL).
	LLM string
	// Model is the model's name, Prompt what it is asked (default: the item), System its system prompt (default: none).
	Model, Prompt, System string
	// Embed asks for the vectors of the prompts, in calls of up to Options.CallItems items.
	Embed bool
	// MaxOutput is the most tokens of an answer. Default: the provider's, of Anthropic 4,096.
	MaxOutput int64
	// AcceptFinish are the reasons to end that are no error beside the normal one: length, content_filter, …
	AcceptFinish []string
	// Params is a JSON object whose members each request has, too, such as {"temperature": 0}.
	Params string

	// ResultPath picks the result out of the answer, in the syntax of jq. Default: the whole answer, as JSON if it is
	// that, and otherwise as a string.
	ResultPath string
	// Schema is a JSON schema. A result that does not fit is tried again, and then fails as invalid. A model gets the
	// schema, too, where its provider takes one. Default: none.
	Schema []byte
	// MaxAnswer is the most bytes of an answer. Default 32 MiB.
	MaxAnswer int64

	// PriceIn, PriceOut and PriceCached are what a million tokens cost of requests, of answers, and of requests from the
	// provider's cache (default: PriceIn), in whatever currency the job's budget is in. The job's report then has the
	// cost of the tokens that answers say they took. Default: the tokens alone.
	PriceIn, PriceOut, PriceCached job.Money

	// AllowOrigins are the origins that the worker may call, such as https://api.example.com, also if they have
	// addresses of the machine's own network. Default: that of the URL, at public addresses only.
	AllowOrigins []string
	// Env looks up a variable. Default: [os.LookupEnv].
	Env func(name string) (string, bool)
}

// HTTP makes a handler that sends a request for each item, or with Array or Embed one for several; the result is what
// the server answers. The calls of a slot wait for their answers at once if Options.Concurrency is above 1.
//
// An answer with status 2xx is a result. 408, 409, 425 and 5xx, and an answer that does not come, are tried again as
// often as the job's item attempts allow. 429, and any answer that states a wait, is a slow-down request (see
// [SlowDown]) for that time, and costs no attempt. No credit, a wrong key, an unknown model and a wrong URL stop the job
// with an error, of type NoCredit, WrongKey, UnknownModel or WrongURL: it can be resumed, and no item has failed. Any
// other answer fails its items, with the status and its beginning. Each request has an Idempotency-Key, which is the
// same when it is repeated, in the same run of the job or in one that continues it.
func HTTP(o HTTPOptions) Handler {
	o.Headers, o.AcceptFinish, o.AllowOrigins = slices.Clone(o.Headers), slices.Clone(o.AcceptFinish), slices.Clone(o.AllowOrigins)
	return Handler{
		name: o.name(), http: o.endpoint, made: o.made(),
		check: func(w Options) error {
			_, err := o.endpoint(w)
			return err
		},
		open: func(s dependencies) (calls.Handler, service, error) {
			endpoint, err := o.endpoint(s.options)
			if err != nil {
				return nil, nil, err
			}
			h := &httpHandler{endpoint: endpoint, size: s.options.requestSize(endpoint), price: o.price}
			return h, h, nil
		},
	}
}

// made says what requests, and results of their answers, are made of, without what a request may reach and cost.
func (o HTTPOptions) made() string {
	return fmt.Sprintf("%q", []any{
		o.Method, o.URL, o.Headers, o.Body, o.Array, o.LLM, o.Model, o.Prompt, o.System, o.Embed, o.MaxOutput, o.AcceptFinish, o.Params,
		o.ResultPath, string(o.Schema),
	})
}

// requestSize returns how many items a request has.
func (o Options) requestSize(e *remote.Endpoint) calls.CallSize {
	if !e.Several() {
		return calls.CallSize{Items: 1, Bytes: httpBytes}
	}
	size := o.callSize(httpItems, httpBytes)
	if most := e.MostItems(); most > 0 {
		size.Items = min(size.Items, most)
	}
	return size
}

// Curl returns the requests that the handler, which [HTTP] has made, would send for the first items of a job, as commands
// for a POSIX shell, each on a line. The items are JSON; nil stands for one that is none, and has no request. Variables
// stand there by their names, and what is known to be secret as …; the Idempotency-Key is left out. An item that has no
// request is a comment with the reason. An error: the options are none that a worker could have.
func (h Handler) Curl(o Options, items [][]byte) (commands []string, err error) {
	if h.http == nil {
		return nil, errors.New("the handler sends no requests")
	}
	endpoint, err := h.http(o)
	if err != nil {
		return nil, err
	}
	defer endpoint.Close()
	var call []command.Item
	send := func() {
		if len(call) == 0 {
			return
		}
		line, faults := endpoint.Curl(call)
		for i, f := range faults {
			if f != nil {
				commands = append(commands, fmt.Sprintf("# item %d: %s", call[i].Number-1, strings.ReplaceAll(f.Message, "\n", " ")))
			}
		}
		if line != "" {
			commands = append(commands, line)
		}
		call = call[:0]
	}
	for i, data := range items {
		if data != nil {
			call = append(call, command.Item{Data: data, JSON: true, Number: int64(i) + 1, Slot: 1})
		}
		if len(call) == o.requestSize(endpoint).Items {
			send()
		}
	}
	send()
	return commands, nil
}

const (
	// httpItems is so few that an item which fails all of a request costs few others, and that an answer comes soon.
	httpItems = 64
	httpBytes = 1 << 20
	// httpConnections are kept if the worker finds out how many calls a slot should make.
	httpConnections = 1000
)

// name describes the handler: it has no query, which may hold a key.
func (o *HTTPOptions) name() string {
	without := func(address string) string {
		address, _, _ = strings.Cut(address, "?")
		return address
	}
	if o.LLM != "" {
		return "llm " + without(o.LLM) + " " + o.Model
	}
	return "http " + cmp.Or(strings.ToUpper(o.Method), http.MethodPost) + " " + without(o.URL)
}

// endpoint checks the options.
func (o *HTTPOptions) endpoint(w Options) (*remote.Endpoint, error) {
	r := remote.Options{
		Method: o.Method, URL: o.URL, Headers: o.Headers, Body: o.Body, Array: o.Array,
		ResultPath: o.ResultPath, MaxAnswer: o.MaxAnswer, Env: o.Env, Concurrency: max(1, w.Slots) * max(1, w.Concurrency),
		AllowOrigins: o.AllowOrigins,
	}
	if w.AutoConcurrency {
		r.Concurrency = httpConnections
	}
	if r.Env == nil {
		r.Env = os.LookupEnv
	}
	var err error
	if len(o.Schema) > 0 {
		if r.Schema, err = remote.ParseSchema(o.Schema); err != nil {
			return nil, err
		}
	}
	if o.LLM != "" {
		if r.Model, err = o.model(); err != nil {
			return nil, err
		}
	}
	endpoint, err := remote.New(r)
	if err != nil {
		return nil, err
	}
	return endpoint, o.checkOrigin(endpoint.Origin())
}

func (o *HTTPOptions) model() (*remote.Model, error) {
	provider, base, err := remote.Provider(o.LLM)
	return &remote.Model{
		Provider: provider, BaseURL: base, Name: o.Model, Prompt: o.Prompt, System: o.System, Embed: o.Embed,
		MaxOutput: o.MaxOutput, Accept: o.AcceptFinish, Params: o.Params,
	}, err
}

// checkOrigin returns an error if the worker may not call an origin.
func (o *HTTPOptions) checkOrigin(called string) error {
	for _, allowed := range o.AllowOrigins {
		if origin, err := remote.Origin(allowed); err == nil && origin == called {
			return nil
		}
	}
	if len(o.AllowOrigins) == 0 {
		return nil
	}
	return fmt.Errorf("origin %s is not called: the worker may call %s", called, strings.Join(o.AllowOrigins, ", "))
}

// httpHandler makes a request of the items of a call.
type httpHandler struct {
	endpoint *remote.Endpoint
	size     calls.CallSize
	refusals refusals
	outcasts outcasts
	stops    stopRequests
	price    func(remote.Usage) job.Usage
	keys     limitKeys
}

func (*httpHandler) start(context.Context) error { return nil }

// Close implements service.
func (h *httpHandler) Close() { h.endpoint.Close() }

func (h *httpHandler) Traits() calls.Traits {
	return calls.Traits{Form: calls.CheckedJSON, OneByOne: !h.endpoint.Several(), Requests: true}
}

func (h *httpHandler) CallSize() calls.CallSize { return h.size }

// price returns what tokens are as the usage of a job.
func (o *HTTPOptions) price(u remote.Usage) job.Usage {
	cached := min(u.Cached, u.In)
	cost := o.PriceIn.Of(u.In - cached).Plus(cmp.Or(o.PriceCached, o.PriceIn).Of(cached)).Plus(o.PriceOut.Of(u.Out))
	return job.Usage{TokensIn: u.In, TokensOut: u.Out, TokensCached: u.Cached, Cost: cost}
}

// limitKeys reads the values of items that a job's limits hold by. It is safe for concurrent use.
type limitKeys struct {
	mu    sync.Mutex
	field string
	value command.Text
}

// of returns the values of the field in the items, each once; an item without it has the empty one.
func (k *limitKeys) of(field string, items []command.Item) (keys []string) {
	if field == "" {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.field != field {
		parsed, err := command.ParseText("{" + field + "}")
		if err != nil {
			parsed = command.Text{}
		}
		k.field, k.value = field, parsed
	}
	for i := range items {
		var key string
		for _, part := range k.value.Parts {
			if part.Value != nil {
				key, _ = part.Value.Text(&items[i])
			}
		}
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}
