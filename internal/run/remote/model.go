package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/run/command"
	"github.com/stint-run/stint/job"
)

// Model says which model is asked, and what. The result of an item is what the model answers: a JSON string, or with a
// schema or a result path the JSON that it answers; of Embed the list of numbers.
type Model struct {
	Provider string // openai, anthropic or gemini
	// BaseURL is that of a server with the provider's API, up to its version: http://127.0.0.1:8000/v1. Default the
	// provider's own, with the key in OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY of the environment, unless a
	// header has one. No other server gets a key that no header names.
	BaseURL   string
	Name      string // of the model
	Prompt    string // a template; default the item: {}
	System    string // a template; default none
	Embed     bool   // asks for the vectors of the prompts, any number in one call
	MaxOutput int64  // tokens; default the provider's, of Anthropic 4096
	// Accept are finish reasons that are no error, beside the normal end: length, content_filter, …
	Accept []string
	// Params is a JSON object whose members each request has as well, such as {"temperature": 0}. Those of gemini stand
	// in generationConfig, or in the request of each vector.
	Params string
}

// Provider returns the provider and the base URL that a text names: openai, anthropic, gemini, one of them with a URL
// (anthropic=https://…), or the URL of a server with OpenAI's API.
func Provider(named string) (provider, baseURL string, err error) {
	if strings.HasPrefix(named, "http://") || strings.HasPrefix(named, "https://") {
		return "openai", named, nil
	}
	provider, baseURL, _ = strings.Cut(named, "=")
	if providers[provider] == nil {
		return "", "", fmt.Errorf("model provider %q: use openai, anthropic, gemini, or the URL of a server with "+
			"OpenAI's API, such as http://127.0.0.1:8000/v1", named)
	}
	return provider, baseURL, nil
}

// ModelOrigin returns the origin that requests to a model go to.
func ModelOrigin(m *Model) (string, error) {
	if m.BaseURL != "" {
		return Origin(m.BaseURL)
	}
	return Origin(providers[m.Provider].baseURL())
}

// provider is the API of one.
type provider interface {
	baseURL() string
	// path is what stands behind the base URL.
	path(m *Model) string
	// key is the header with the key, and fixed are those that each request has.
	key() (header, variable string)
	fixed() []string
	// chat returns a request, and embed one for vectors. own: it goes to the provider itself.
	chat(m *Model, own bool, system, prompt string, schema *Schema) map[string]any
	embed(m *Model, texts []string) map[string]any
	// params are the objects in a request that have further members.
	params(request map[string]any) []map[string]any
	// said returns what a model has said, and vectors those of n texts.
	said(body []byte) (*said, error)
	vectors(body []byte, n int) ([]json.RawMessage, error)
	// mostTexts is how many texts a request for vectors may have.
	mostTexts() int
}

var providers = map[string]provider{"openai": openAI{}, "anthropic": anthropic{}, "gemini": gemini{}}

// said is what a model has said.
type said struct {
	text   string
	finish string // "" is the normal end; OpenAI's words where there are: length, content_filter
	raw    string // the provider's word
}

// modelCalls makes requests to a model, and reads its answers.
type modelCalls struct {
	*Model
	provider provider
	prompt   textTemplate
	system   textTemplate
	schema   *Schema
	extra    map[string]any
	json     bool // the answer must be JSON
}

func newModelCalls(m *Model, schema *Schema, path string) (*modelCalls, error) {
	c := &modelCalls{Model: m, provider: providers[m.Provider], schema: schema, json: schema != nil || path != ""}
	var err error
	switch {
	case c.provider == nil:
		_, _, err = Provider(m.Provider)
		return nil, err
	case m.Name == "":
		return nil, errors.New("no model given")
	case m.Embed && c.provider.mostTexts() == 0:
		return nil, fmt.Errorf("%s has no embeddings: use openai, gemini, or the URL of a server", m.Provider)
	case m.Embed && (schema != nil || path != "" || m.System != ""):
		return nil, errors.New("embeddings are lists of numbers: they have no system prompt, schema or result path")
	case m.MaxOutput < 0:
		return nil, fmt.Errorf("invalid limit of tokens %d: use a positive number", m.MaxOutput)
	}
	if m.Prompt == "" {
		c.prompt, err = parseTemplate("{}")
	} else {
		c.prompt, err = parseTemplate(m.Prompt)
	}
	if err != nil {
		return nil, fmt.Errorf("prompt: %w", err)
	}
	if c.system, err = parseTemplate(m.System); err != nil {
		return nil, fmt.Errorf("system prompt: %w", err)
	}
	if m.Params != "" {
		if json.Unmarshal([]byte(m.Params), &c.extra) != nil || c.extra == nil {
			return nil, fmt.Errorf("parameters %q: give a JSON object, such as {\"temperature\": 0}", m.Params)
		}
	}
	return c, nil
}

// own reports whether requests go to the provider itself.
func (c *modelCalls) own() bool {
	if c.BaseURL == "" {
		return true
	}
	named, err := Origin(c.BaseURL)
	provider, _ := Origin(c.provider.baseURL())
	return err == nil && named == provider
}

// url returns the template of the URL, which has no placeholders.
func (c *modelCalls) url() string {
	base := c.BaseURL
	if base == "" {
		base = c.provider.baseURL()
	}
	u := strings.TrimRight(base, "/") + c.provider.path(c.Model)
	return strings.ReplaceAll(strings.ReplaceAll(u, "{", "{{"), "}", "}}")
}

// headers returns those given, and those that the provider needs besides.
func (c *modelCalls) headers(given []string) []string {
	has := func(name string) bool {
		return slices.ContainsFunc(given, func(line string) bool {
			other, _, _ := strings.Cut(line, ":")
			return strings.EqualFold(strings.TrimSpace(other), name)
		})
	}
	all := slices.Clone(given)
	key, variable := c.provider.key()
	name, _, _ := strings.Cut(key, ":")
	if c.own() && !has(name) && !has("Authorization") {
		all = append(all, key+"$"+variable)
	}
	for _, line := range c.provider.fixed() {
		if name, _, _ := strings.Cut(line, ":"); !has(name) {
			all = append(all, line)
		}
	}
	return all
}

// unlimitedOut is reserved for an answer whose length is not limited.
const unlimitedOut = 500

// chat returns the body of an item's request. The error is the item's.
func (c *modelCalls) chat(item *command.Item) (body []byte, estimate Usage, err error) {
	prompt, err := c.prompt.of(item)
	if err != nil {
		return nil, estimate, err
	}
	system, err := c.system.of(item)
	if err != nil {
		return nil, estimate, err
	}
	body = c.encode(c.provider.chat(c.Model, c.own(), system, prompt, c.schema))
	estimate.In = Tokens(prompt)
	if system != "" {
		estimate.In += Tokens(system)
	}
	if c.schema != nil {
		estimate.In += Tokens(string(c.schema.source))
	}
	if estimate.Out = c.MaxOutput; estimate.Out == 0 {
		estimate.Out = unlimitedOut
	}
	return body, estimate, nil
}

func (c *modelCalls) embed(texts []string) []byte { return c.encode(c.provider.embed(c.Model, texts)) }

func (c *modelCalls) encode(request map[string]any) []byte {
	if len(c.extra) > 0 {
		for _, members := range c.provider.params(request) {
			maps.Copy(members, c.extra)
		}
	}
	body, err := text.JSON(request)
	if err != nil {
		panic(fmt.Sprintf("remote: a request that is not JSON: %v", err)) // it is made of strings and of JSON
	}
	return body
}

// textTemplate is text with placeholders.
type textTemplate struct{ command.Text }

func parseTemplate(template string) (textTemplate, error) {
	if template == "" {
		return textTemplate{}, nil
	}
	parsed, err := command.ParseText(template)
	return textTemplate{parsed}, err
}

// of returns the text of an item; bytes that are not UTF-8 are replaced. The error is the item's.
func (t textTemplate) of(item *command.Item) (string, error) {
	var b strings.Builder
	for _, part := range t.Parts {
		b.WriteString(part.Text)
		if part.Value == nil {
			continue
		}
		value, err := part.Value.Text(item)
		if err != nil {
			return "", err
		}
		b.WriteString(value)
	}
	return strings.ToValidUTF8(b.String(), "\uFFFD"), nil
}

// said returns what a model has said as JSON.
func (e *Endpoint) said(answer *http.Response, body []byte) ([]byte, *Fault) {
	if fault := e.modelFault(answer, body); fault != nil {
		return nil, fault
	}
	s, err := e.model.provider.said(body)
	if err != nil {
		return nil, e.strange(answer, body, err)
	}
	if s.finish != "" && !slices.Contains(e.model.Accept, s.finish) && !slices.Contains(e.model.Accept, s.raw) {
		next := ""
		if s.finish == "length" {
			next = ": it has reached the limit of tokens. Allow more, or accept length"
		}
		return nil, newFault(Fail, "Finish"+camel(s.finish), "the model has ended with %s%s",
			e.start([]byte(s.raw)), next)
	}
	if !e.model.json {
		quoted, err := text.JSON(s.text)
		if err != nil {
			return nil, e.strange(answer, body, err)
		}
		return quoted, nil
	}
	value := compact([]byte(unfenced(s.text)))
	if value == nil {
		f := newFault(Again, TypeSchema, "the model's answer is not JSON%s", e.quoteStart([]byte(s.text)))
		f.Kind = job.KindInvalid
		return nil, f
	}
	return value, nil
}

// vectors returns those of n items.
func (e *Endpoint) vectors(n int, answer *http.Response, body []byte) ([][]byte, *Fault) {
	if fault := e.modelFault(answer, body); fault != nil {
		return nil, fault
	}
	list, err := e.model.provider.vectors(body, n)
	if err != nil {
		return nil, e.strange(answer, body, err)
	}
	if len(list) != n {
		return nil, e.length(answer, n, len(list))
	}
	values := make([][]byte, n)
	for i := range list {
		if values[i] = compact(list[i]); len(list[i]) == 0 || values[i] == nil {
			return nil, e.strange(answer, body, fmt.Errorf("it has no vector of text %d", i+1))
		}
	}
	return values, nil
}

// modelFault returns the fault of an answer that is an error in spite of its status, or no JSON.
func (e *Endpoint) modelFault(answer *http.Response, body []byte) *Fault {
	var in struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &in) != nil {
		return e.notJSON(answer, body)
	}
	if len(in.Error) == 0 || string(in.Error) == "null" {
		return nil
	}
	status := http.StatusBadGateway
	if p := problemOf(body); p != nil && p.code >= 400 && p.code <= 599 {
		status = p.code
	}
	return e.statusFault(status, answer.Header, body)
}

// strange is the fault of an answer that is not what the provider documents.
func (e *Endpoint) strange(answer *http.Response, body []byte, err error) *Fault {
	return newFault(Again, TypeAnswer, "%s, but not as %s does: %s%s", e.answered(answer.StatusCode), e.model.Provider,
		e.Redact(err.Error()), e.quoteStart(body))
}

// camel returns a word such as content_filter as ContentFilter.
func camel(word string) string {
	var b strings.Builder
	for part := range strings.FieldsFuncSeq(strings.ToLower(text.Cut(word, 40)), func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9')
	}) {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}

// unfenced returns JSON without the Markdown fence that models without a schema put around it.
func unfenced(s string) string {
	s = strings.TrimSpace(s)
	inner, ok := strings.CutPrefix(s, "```")
	if !ok {
		return s
	}
	inner, ok = strings.CutSuffix(inner, "```")
	if !ok {
		return s
	}
	return strings.TrimSpace(strings.TrimPrefix(inner, "json"))
}
