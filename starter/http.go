package starter

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stint-run/stint/internal/run/remote"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/worker"
)

var (
	// endpointFlags say more of requests to an endpoint that is no model, and modelFlags of those to a model.
	endpointFlags = []string{"body", "array"}
	modelFlags    = []string{"model", "prompt", "system", "embed", "max-output", "accept-finish", "params"}
	// httpFlags say more of requests, and of nothing else. They are keys of pools of a job file, too.
	httpFlags = slices.Concat(endpointFlags, modelFlags, []string{
		"header", "result-path", "schema", "max-answer", "allow-origin", "price-in", "price-out", "price-cached",
	})
)

// httpItemAttempts is how often `run` tries an item of a handler that sends requests, unless a flag says otherwise: a
// server has no answer now and then.
const httpItemAttempts = 5

// httpFlagValues are what the flags of requests say, as they were given: some name files.
type httpFlagValues struct {
	worker.HTTPOptions
	schema string
	// mustName says that the origins which may be called must be named by --allow-origin.
	mustName bool
}

// addHTTPFlags adds the flags of handlers that send requests.
func (o *workerOptions) addHTTPFlags(fs *pflag.FlagSet) {
	h := &o.http
	h.MaxAnswer = remote.DefaultMaxAnswer
	fs.StringArrayVar(&h.Headers, "header", nil, "of --http and --llm: `NAME: VALUE` of a header, or @FILE with one a line; $NAME is a variable of the environment, for keys; repeatable")
	fs.StringVar(&h.Body, "body", "", "of --http: `TEXT` of the body, JSON with placeholders such as {name}, or @FILE that has it (default: the item as JSON)")
	fs.BoolVar(&h.Array, "array", false, "of --http: one request for a JSON list of up to --call-items items, answered by a list")
	fs.StringVar(&h.Model, "model", "", "of --llm: the model's `NAME`")
	fs.StringVar(&h.Prompt, "prompt", "", "of --llm: `FILE` with what the model is asked, with placeholders (default: the item)")
	fs.StringVar(&h.System, "system", "", "of --llm: `FILE` with the system prompt (default: none)")
	fs.BoolVar(&h.Embed, "embed", false, "of --llm: ask for vectors, of up to --call-items items in a request")
	fs.Int64Var(&h.MaxOutput, "max-output", 0, "of --llm: most tokens of an answer (0: the provider's limit)")
	fs.StringSliceVar(&h.AcceptFinish, "accept-finish", nil, "of --llm: `REASONS` to end that are no error, such as length (default: the normal end only)")
	fs.StringVar(&h.Params, "params", "", "of --llm: `JSON` object that each request has, too, such as {\"temperature\": 0}")
	fs.StringVar(&h.ResultPath, "result-path", "", "of --http and --llm: `PATH` to the result in an answer, as in jq: .a.b (default: the whole answer)")
	fs.StringVar(&h.schema, "schema", "", "of --http and --llm: `FILE` with a JSON schema that each result must fit; a model gets it, too")
	fs.Var((*sizeFlag)(&h.MaxAnswer), "max-answer", "of --http and --llm: most bytes of an answer")
	for _, price := range []struct {
		flag, what string
		amount     *job.Money
	}{
		{"price-in", "of requests", &h.PriceIn}, {"price-out", "of answers", &h.PriceOut},
		{"price-cached", "of requests that the provider had in its cache (0: --price-in)", &h.PriceCached},
	} {
		fs.Var((*moneyFlag)(price.amount), price.flag, "of --http and --llm: price of a million tokens "+price.what)
		fs.Lookup(price.flag).DefValue = zeroDefault
	}
	fs.StringArrayVar(&h.AllowOrigins, "allow-origin", nil, "of --http and --llm: `ORIGIN` that may be called, such as https://api.example.com; repeatable (a worker needs one; other commands allow what --http or --llm names)")
}

// callsHTTP reports whether the handler sends requests.
func (o *workerOptions) callsHTTP() bool {
	named := o.named()
	return len(named) == 1 && named[0].http
}

// moreAttempts gives items of a handler that sends requests more tries, if no flag says how many.
func (o *workerOptions) moreAttempts(cmd *cobra.Command, spec *job.Spec) {
	if o.callsHTTP() && !cmd.Flags().Changed("item-attempts") {
		spec.ItemAttempts = httpItemAttempts
	}
}

// checkPrices refuses a budget of money for requests that have no price.
func (o *workerOptions) checkPrices(spec job.Spec) error {
	if spec.MaxCost > 0 && o.callsHTTP() && o.http.PriceIn == 0 && o.http.PriceOut == 0 {
		return usageError("--max-cost %s: tokens have no price: give --price-in and --price-out, what a million of them cost, or use --max-tokens", spec.MaxCost)
	}
	return nil
}

// method is the first word of --http, if it is one.
var method = regexp.MustCompile(`^([A-Za-z]+)\s+(\S.*)$`)

// openHTTP returns the handler of --http.
func openHTTP(o *workerOptions, p *Program, value string) (worker.Handler, error) {
	if err := o.refuseFlags("llm", modelFlags); err != nil {
		return worker.Handler{}, err
	}
	h := o.http.HTTPOptions
	h.Method, h.URL = http.MethodPost, strings.TrimSpace(value)
	if found := method.FindStringSubmatch(h.URL); found != nil {
		h.Method, h.URL = found[1], found[2]
	}
	if o.flags.Changed("call-items") && !h.Array {
		return worker.Handler{}, usageError("--call-items: each request has one item: for one with a JSON list of several give --array, too")
	}
	var err error
	if h.Body, err = p.textOrFile("body", h.Body); err != nil {
		return worker.Handler{}, err
	}
	address, _, _ := strings.Cut(h.URL, "{") // the origin has no placeholder
	return o.openRequests(p, h, func() (string, error) { return remote.Origin(withoutPath(address)) })
}

// withoutPath returns scheme, host and port of an address.
func withoutPath(address string) string {
	scheme, rest, _ := strings.Cut(address, "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	return scheme + "://" + rest
}

// openLLM returns the handler of --llm.
func openLLM(o *workerOptions, p *Program, value string) (worker.Handler, error) {
	if err := o.refuseFlags("http", endpointFlags); err != nil {
		return worker.Handler{}, err
	}
	h := o.http.HTTPOptions
	h.LLM = value
	if o.flags.Changed("call-items") && !h.Embed {
		return worker.Handler{}, usageError("--call-items: a model is asked about one item in each request: only --embed takes several")
	}
	for _, file := range []struct {
		flag string
		text *string
	}{{"prompt", &h.Prompt}, {"system", &h.System}} {
		if *file.text == "" {
			continue
		}
		content, err := p.fileOf(file.flag, *file.text)
		if err != nil {
			return worker.Handler{}, err
		}
		*file.text = strings.TrimSuffix(string(content), "\n")
	}
	provider, base, err := remote.Provider(value)
	if err != nil {
		return worker.Handler{}, usageError("--llm: %w", err)
	}
	return o.openRequests(p, h, func() (string, error) {
		return remote.ModelOrigin(&remote.Model{Provider: provider, BaseURL: base})
	})
}

// openRequests completes the options of a handler that sends requests to an origin.
func (o *workerOptions) openRequests(p *Program, h worker.HTTPOptions, origin func() (string, error)) (worker.Handler, error) {
	h.Env = p.lookup
	var err error
	if h.Headers, err = p.headers(h.Headers); err != nil {
		return worker.Handler{}, err
	}
	if o.http.schema != "" {
		if h.Schema, err = p.fileOf("schema", o.http.schema); err != nil {
			return worker.Handler{}, err
		}
	}
	if len(h.AllowOrigins) > 0 {
		return worker.HTTP(h), nil
	}
	named, err := origin()
	switch {
	case err != nil: // the handler's check says it better
	case o.http.mustName:
		return worker.Handler{}, usageError("no --allow-origin given: name the origins that this worker may call: --allow-origin %s", named)
	default:
		h.AllowOrigins = []string{named}
	}
	return worker.HTTP(h), nil
}

// refuseFlags refuses flags that are for another kind of handler.
func (o *workerOptions) refuseFlags(kind string, names []string) error {
	if i := slices.IndexFunc(names, o.flags.Changed); i >= 0 {
		return usageError("--%s is for --%s: leave it out", names[i], kind)
	}
	return nil
}

// headers returns the headers of --header, in the place of files the lines of these.
func (p *Program) headers(given []string) (all []string, err error) {
	for _, text := range given {
		if !strings.HasPrefix(text, "@") {
			all = append(all, text)
			continue
		}
		content, err := p.fileOf("header", text[1:])
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(content)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				all = append(all, line)
			}
		}
	}
	return all, nil
}

// textOrFile returns what a flag says, or the content of the file that it names with @.
func (p *Program) textOrFile(flag, text string) (string, error) {
	name, isFile := strings.CutPrefix(text, "@")
	if !isFile {
		return text, nil
	}
	content, err := p.fileOf(flag, name)
	return strings.TrimSuffix(string(content), "\n"), err
}

// fileOf returns the content of a file that a flag names.
func (p *Program) fileOf(flag, name string) ([]byte, error) {
	content, err := os.ReadFile(p.path(name))
	if err != nil {
		return nil, usageError("--%s: %w", flag, err)
	}
	return content, nil
}

// httpIdentity returns what of the flags distinguishes jobs that send requests to the same place: not the headers,
// whose keys change.
func (o *workerOptions) httpIdentity(p *Program) []string {
	parts := []string{*o.handlers[o.named()[0].flag]}
	o.flags.Visit(func(f *pflag.Flag) {
		if !slices.Contains(httpFlags, f.Name) || f.Name == "header" || f.Name == "allow-origin" {
			return
		}
		text := f.Value.String()
		name, isFile := strings.CutPrefix(text, "@")
		if isFile = isFile && f.Name == "body"; isFile || slices.Contains([]string{"prompt", "system", "schema"}, f.Name) {
			content, err := p.fileOf(f.Name, name)
			text += fmt.Sprintf(" %x %v", content, err)
		}
		parts = append(parts, f.Name, text)
	})
	return parts
}

// openHeaders are headers whose values may be printed.
var openHeaders = []string{"accept", "content-type", "user-agent"}

// printable returns what --header says, as it may be printed: its value may be a key.
func printable(header string) string {
	name, value, _ := strings.Cut(header, ":")
	if strings.HasPrefix(header, "@") || strings.Contains(value, "$") || slices.Contains(openHeaders, strings.ToLower(strings.TrimSpace(name))) {
		return header
	}
	return name + ": …"
}
