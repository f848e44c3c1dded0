package remote

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/run/command"
)

// script is a server that answers with what a test says, and keeps what it was asked.
type script struct {
	status  int
	headers map[string]string
	answer  string

	path   string
	header http.Header
	asked  string
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.path, s.header, s.asked = r.URL.Path, r.Header, string(body)
	w.Header().Set("Content-Type", "application/json")
	for name, value := range s.headers {
		w.Header().Set(name, value)
	}
	if s.status != 0 {
		w.WriteHeader(s.status)
	}
	_, _ = io.WriteString(w, s.answer)
}

// ask returns an endpoint of a model that a script plays.
func ask(t *testing.T, m Model, o Options) (*script, *Endpoint) {
	t.Helper()
	s := &script{}
	m.BaseURL = serve(t, s.ServeHTTP) + m.BaseURL
	o.Model = &m
	return s, open(t, o)
}

const (
	openAISaid    = `{"id":"c1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%s,"refusal":null},"logprobs":null,"finish_reason":"%s"}],"usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,"prompt_tokens_details":{"cached_tokens":7,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":4}}}`
	anthropicSaid = `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"thinking","thinking":"hm","signature":"x"},{"type":"text","text":%s}],"stop_reason":"%s","stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":2,"cache_read_input_tokens":7,"output_tokens":10}}`
	geminiSaid    = `{"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":%s}],"role":"model"},"finishReason":"%s","index":0}],"usageMetadata":{"promptTokenCount":19,"candidatesTokenCount":6,"thoughtsTokenCount":4,"cachedContentTokenCount":7,"totalTokenCount":29},"modelVersion":"m"}`
)

func TestModel_Requests(t *testing.T) {
	t.Parallel()
	schema := parseSchema(t, labelSchema)
	item := object(`{"text": "so \"good\"", "lang": "en"}`)
	full := Model{Name: "m-1", Prompt: "Label: {text}", System: "You speak {lang}.", MaxOutput: 50, Params: `{"temperature": 0}`}
	compacted := string(schema.source)
	for name, c := range map[string]struct {
		provider string
		base     string
		full     bool
		path     string
		header   [2]string
		want     string
	}{
		"openai": {"openai", "/v1", false, "/v1/chat/completions", [2]string{}, `{"model":"m-1","messages":[{"role":"user","content":"{\"text\":\"so \\\"good\\\"\",\"lang\":\"en\"}"}]}`},
		"openai, all": {"openai", "/v1/", true, "/v1/chat/completions", [2]string{}, `{"model":"m-1","temperature":0,"max_tokens":50,
			"messages":[{"role":"system","content":"You speak en."},{"role":"user","content":"Label: so \"good\""}],
			"response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":` + compacted + `}}}`},
		"anthropic": {"anthropic", "/v1", false, "/v1/messages", [2]string{"Anthropic-Version", "2023-06-01"}, `{"model":"m-1","max_tokens":4096,"messages":[{"role":"user","content":"{\"text\":\"so \\\"good\\\"\",\"lang\":\"en\"}"}]}`},
		"anthropic, all": {"anthropic", "/v1", true, "/v1/messages", [2]string{"Anthropic-Version", "2023-06-01"}, `{"model":"m-1","temperature":0,"max_tokens":50,"system":"You speak en.",
			"messages":[{"role":"user","content":"Label: so \"good\""}],"output_config":{"format":{"type":"json_schema","schema":` + compacted + `}}}`},
		"gemini": {"gemini", "/v1beta", false, "/v1beta/models/m-1:generateContent", [2]string{}, `{"contents":[{"role":"user","parts":[{"text":"{\"text\":\"so \\\"good\\\"\",\"lang\":\"en\"}"}]}]}`},
		"gemini, all": {"gemini", "/v1beta", true, "/v1beta/models/m-1:generateContent", [2]string{}, `{"systemInstruction":{"parts":[{"text":"You speak en."}]},
			"contents":[{"role":"user","parts":[{"text":"Label: so \"good\""}]}],
			"generationConfig":{"temperature":0,"maxOutputTokens":50,"responseMimeType":"application/json","responseJsonSchema":` + compacted + `}}`},
	} {
		m, o := Model{Name: "m-1"}, Options{Headers: []string{"X-Api-Key: 12345678"}}
		if c.full {
			m, o.Schema = full, schema
		}
		m.Provider, m.BaseURL = c.provider, c.base
		s, e := ask(t, m, o)
		_, _ = do(t, e, item)
		require.JSONEq(t, c.want, s.asked, name)
		require.Equal(t, c.path, s.path, name)
		require.Equal(t, "application/json", s.header.Get("Content-Type"))
		require.Equal(t, []string{"12345678", "key"}, []string{s.header.Get("X-Api-Key"), s.header.Get("Idempotency-Key")})
		if c.header[0] != "" {
			require.Equal(t, c.header[1], s.header.Get(c.header[0]), name)
		}
		estimate := e.NewRequest(oneItem(item)).Estimate()
		if c.full {
			require.Equal(t, Usage{In: Tokens(`Label: so "good"`) + Tokens("You speak en.") + Tokens(compacted), Out: 50}, estimate)
		} else {
			require.Equal(t, int64(500), estimate.Out)
		}
	}
}

func TestModel_Answers(t *testing.T) {
	t.Parallel()
	for provider, form := range map[string]struct{ said, end, length, refused, finish string }{
		"openai":    {openAISaid, "stop", "length", "content_filter", "ContentFilter"},
		"anthropic": {anthropicSaid, "end_turn", "max_tokens", "refusal", "Refusal"},
		"gemini":    {geminiSaid, "STOP", "MAX_TOKENS", "SAFETY", "Safety"},
	} {
		s, e := ask(t, Model{Provider: provider, Name: "m"}, Options{})
		s.answer = fmt.Sprintf(form.said, `"so \"good\" <é>"`, form.end)
		reply, err := do(t, e, line("x"))
		require.NoError(t, err)
		require.Equal(t, `"so \"good\" <é>"`, string(reply.Items[0].Value), provider)
		require.Equal(t, []any{Usage{In: 19, Out: 10, Cached: 7}, true}, []any{reply.Usage, reply.Reported}, provider)

		s.answer = fmt.Sprintf(form.said, `"so"`, form.length)
		f := faultOf(t, e, line("x"))
		require.Equal(t, []any{Fail, "FinishLength", Usage{In: 19, Out: 10, Cached: 7}}, []any{f.Verdict, f.Type, f.Usage}, provider)
		require.Contains(t, f.Message, "the model has ended with "+form.length+": it has reached the limit of tokens")
		s.answer = fmt.Sprintf(form.said, `"so"`, form.refused)
		require.Equal(t, "Finish"+form.finish, faultOf(t, e, line("x")).Type, provider)

		s.answer = `<html>`
		f = faultOf(t, e, line("x"))
		require.Equal(t, []any{Again, TypeNotJSON}, []any{f.Verdict, f.Type})
		s.answer = `{"id": "c1"}`
		f = faultOf(t, e, line("x"))
		require.Equal(t, []any{Again, TypeAnswer}, []any{f.Verdict, f.Type})
		require.Contains(t, f.Message, "answered 200 OK, but not as "+provider+` does: it has no`)

		for _, accept := range []string{"length", form.length} {
			s, e = ask(t, Model{Provider: provider, Name: "m", Accept: []string{accept}}, Options{})
			s.answer = fmt.Sprintf(form.said, `"so"`, form.length)
			require.Equal(t, `"so"`, result(t, e, line("x")), provider)
		}

		s, e = ask(t, Model{Provider: provider, Name: "m"}, Options{Schema: parseSchema(t, labelSchema), ResultPath: "."})
		s.answer = fmt.Sprintf(form.said, `"{\"label\": \"good\", \"score\": 1}"`, form.end)
		require.Equal(t, `{"label":"good","score":1}`, result(t, e, line("x")), provider)
		s.answer = fmt.Sprintf(form.said, `"`+"```json\\n{\\\"label\\\": \\\"good\\\", \\\"score\\\": 1}\\n```"+`"`, form.end)
		require.Equal(t, `{"label":"good","score":1}`, result(t, e, line("x")), provider)
		for answer, message := range map[string]string{
			`"{\"label\": 1}"`:  "the result does not fit the schema: ",
			`"I think it's ok"`: "the model's answer is not JSON: I think it's ok",
		} {
			s.answer = fmt.Sprintf(form.said, answer, form.end)
			f = faultOf(t, e, line("x"))
			require.Equal(t, []any{Again, "invalid", TypeSchema}, []any{f.Verdict, f.Kind, f.Type})
			require.Contains(t, f.Message, message)
		}
	}
}

func TestModel_Refusals(t *testing.T) {
	t.Parallel()
	s, e := ask(t, Model{Provider: "openai", Name: "m"}, Options{})
	s.answer = `{"choices":[{"message":{"role":"assistant","content":null,"refusal":"I cannot."},"finish_reason":"stop"}]}`
	require.Equal(t, "FinishRefusal", faultOf(t, e, line("x")).Type)
	s.answer = `{"choices":[{"message":{"role":"assistant","content":null},"finish_reason":"stop"}]}`
	require.Equal(t, TypeAnswer, faultOf(t, e, line("x")).Type)
	s, e = ask(t, Model{Provider: "gemini", Name: "m"}, Options{})
	s.answer = `{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":5}}`
	f := faultOf(t, e, line("x"))
	require.Equal(t, []any{"FinishBlocked", "the model has ended with blocked (SAFETY)", int64(5)}, []any{f.Type, f.Message, f.Usage.In})
}

// Routers answer with an error and status 200; limits that are used up stand beside results.
func TestModel_ErrorsAndLimits(t *testing.T) {
	t.Parallel()
	s, e := ask(t, Model{Provider: "openai", Name: "m"}, Options{})
	s.answer = `{"error":{"code":429,"message":"busy upstream"},"user_id":"u"}`
	f := faultOf(t, e, line("x"))
	require.Equal(t, []any{Again, TypeRateLimit, true}, []any{f.Verdict, f.Type, f.SlowDown})
	s.answer = `{"error":{"message":"something","type":"server_error"}}`
	require.Equal(t, []any{Again, "HTTP502"}, []any{faultOf(t, e, line("x")).Verdict, faultOf(t, e, line("x")).Type})

	s.headers = map[string]string{"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "8.64s", "x-ratelimit-remaining-tokens": "9000"}
	s.answer = fmt.Sprintf(openAISaid, `"a"`, "stop")
	reply, err := do(t, e, line("x"))
	require.NoError(t, err)
	require.Equal(t, []any{true, 8640 * time.Millisecond}, []any{reply.SlowDown, reply.Wait})

	s, e = ask(t, Model{Provider: "anthropic", Name: "m"}, Options{})
	s.status, s.answer, s.headers = 529, anthropicBusy, map[string]string{"x-should-retry": "true", "retry-after": "4"}
	f = faultOf(t, e, line("x"))
	require.Equal(t, []any{Again, "HTTP529", true, 4 * time.Second}, []any{f.Verdict, f.Type, f.SlowDown, f.Wait})
	s.status, s.headers = 429, map[string]string{
		"Date": "Fri, 01 May 2026 12:00:00 GMT", "anthropic-ratelimit-requests-remaining": "0", "anthropic-ratelimit-requests-reset": "2026-05-01T12:00:30Z",
	}
	f = faultOf(t, e, line("x"))
	require.Equal(t, []any{Again, true, 30 * time.Second}, []any{f.Verdict, f.SlowDown, f.Wait})
	s.status, s.answer = 404, anthropicModel
	f = faultOf(t, e, line("x"))
	require.Equal(t, []any{Stop, TypeUnknownModel}, []any{f.Verdict, f.Type})

	s, e = ask(t, Model{Provider: "gemini", Name: "m"}, Options{})
	s.status, s.answer = 429, geminiRate
	f = faultOf(t, e, line("x"))
	require.Equal(t, []any{Again, true, 45837906927 * time.Nanosecond}, []any{f.Verdict, f.SlowDown, f.Wait})
}

func TestModel_Embeddings(t *testing.T) {
	t.Parallel()
	items := []command.Item{object(`{"t": "a"}`), object(`{"t": "b"}`), object(`{}`)}
	s, e := ask(t, Model{Provider: "openai", Name: "m", Prompt: "{t}", Embed: true}, Options{})
	require.Equal(t, []any{true, 2048}, []any{e.Several(), e.MostItems()})
	s.answer = `{"object":"list","data":[{"object":"embedding","index":1,"embedding":[0.5, -1e-05]},{"object":"embedding","index":0,"embedding":[1]}],"model":"m","usage":{"prompt_tokens":8,"total_tokens":8}}`
	reply, err := do(t, e, items...)
	require.NoError(t, err)
	require.Equal(t, "/embeddings", s.path)
	require.JSONEq(t, `{"model":"m","input":["a","b"]}`, s.asked)
	require.Equal(t, []string{"[1]", "[0.5,-1e-05]"}, []string{string(reply.Items[0].Value), string(reply.Items[1].Value)})
	require.Equal(t, TypeTemplate, reply.Items[2].Fault.Type)
	require.Equal(t, Usage{In: 8}, reply.Usage)
	for answer, want := range map[string]string{
		`{"data":[{"index":0,"embedding":[1]}]}`:                             TypeLength,
		`{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}`: TypeAnswer,
		`{"data":[{"index":0,"embedding":[1]},{"index":7,"embedding":[1]}]}`: TypeAnswer,
		`{"data":[{"index":0,"embedding":[1]},{"index":1}]}`:                 TypeAnswer,
		`{}`: TypeAnswer,
		`{"error":{"code":429,"message":"busy"}}`: TypeRateLimit,
	} {
		s.answer = answer
		_, err := do(t, e, items...)
		var f *Fault
		require.ErrorAs(t, err, &f)
		require.Equal(t, want, f.Type, answer)
	}

	s, e = ask(t, Model{Provider: "gemini", Name: "models/m", Embed: true, Params: `{"x": 1}`}, Options{})
	require.Equal(t, 100, e.MostItems())
	s.answer = `{"embeddings":[{"values":[1]},{"values":[2, 3]}]}`
	reply, err = do(t, e, line("a"), line("b"))
	require.NoError(t, err)
	require.Equal(t, "/models/m:batchEmbedContents", s.path)
	require.JSONEq(t, `{"requests":[
		{"x":1,"model":"models/m","content":{"parts":[{"text":"a"}]}},{"x":1,"model":"models/m","content":{"parts":[{"text":"b"}]}}]}`, s.asked)
	require.Equal(t, []any{"[2,3]", false}, []any{string(reply.Items[1].Value), reply.Reported})
}

// A key goes to its provider, and to no other server.
func TestModel_Keys(t *testing.T) {
	t.Parallel()
	vars := env("OPENAI_API_KEY", "k-openai", "ANTHROPIC_API_KEY", "k-anthropic", "GEMINI_API_KEY", "k-gemini")
	for provider, want := range map[string][2]string{
		"openai": {"Authorization", "Bearer k-openai"}, "anthropic": {"X-Api-Key", "k-anthropic"}, "gemini": {"X-Goog-Api-Key", "k-gemini"},
	} {
		e, err := New(Options{Model: &Model{Provider: provider, Name: "m"}, Env: vars})
		require.NoError(t, err)
		require.Equal(t, want[1], e.NewRequest(oneItem(line("x"))).header.Get(want[0]))
		require.NotContains(t, e.Redact("k-openai k-anthropic k-gemini"), want[1])

		e, err = New(Options{Model: &Model{Provider: provider, Name: "m", BaseURL: "http://127.0.0.1:8000/v1"}, Env: vars})
		require.NoError(t, err)
		for name, values := range e.NewRequest(oneItem(line("x"))).header {
			require.NotContains(t, strings.Join(values, " "), "k-", name)
		}
		_, err = New(Options{Model: &Model{Provider: provider, Name: "m"}})
		require.ErrorContains(t, err, "the worker's environment has no "+strings.ToUpper(provider)+"_API_KEY")
		e, err = New(Options{Model: &Model{Provider: provider, Name: "m"}, Headers: []string{want[0] + ": mine"}})
		require.NoError(t, err)
		require.Equal(t, "mine", e.NewRequest(oneItem(line("x"))).header.Get(want[0]))
	}
	e, err := New(Options{Model: &Model{Provider: "openai", Name: "m", MaxOutput: 5}, Env: vars})
	require.NoError(t, err)
	require.Contains(t, string(e.NewRequest(oneItem(line("x"))).body), `"max_completion_tokens":5`)
}

func TestModel_Refuses(t *testing.T) {
	t.Parallel()
	for want, m := range map[string]Model{
		"model provider \"x\": use openai, anthropic": {Provider: "x", Name: "m"},
		"no model given":                        {Provider: "openai"},
		"anthropic has no embeddings":           {Provider: "anthropic", Name: "m", Embed: true},
		"embeddings are lists of numbers":       {Provider: "openai", Name: "m", Embed: true, System: "x"},
		"prompt: there is no placeholder {x|}":  {Provider: "openai", Name: "m", Prompt: "{x|}"},
		"system prompt: ":                       {Provider: "openai", Name: "m", System: "}"},
		"parameters \"[]\": give a JSON object": {Provider: "openai", Name: "m", Params: "[]"},
		"invalid limit of tokens -1":            {Provider: "openai", Name: "m", MaxOutput: -1},
		"begin with http:// or https://":        {Provider: "openai", Name: "m", BaseURL: "localhost:8000"},
	} {
		_, err := New(Options{Model: &m, Env: env("OPENAI_API_KEY", "k", "ANTHROPIC_API_KEY", "k")})
		require.ErrorContains(t, err, want)
	}
	_, err := New(Options{URL: "https://example.com", Model: &Model{Provider: "openai", Name: "m"}})
	require.ErrorContains(t, err, "a model has a method, a URL and a body of its own")
}

func TestProvider(t *testing.T) {
	t.Parallel()
	for named, want := range map[string][2]string{
		"openai": {"openai", ""}, "gemini": {"gemini", ""}, "anthropic=https://example.com/v1": {"anthropic", "https://example.com/v1"},
		"http://127.0.0.1:8000/v1": {"openai", "http://127.0.0.1:8000/v1"},
	} {
		provider, base, err := Provider(named)
		require.NoError(t, err)
		require.Equal(t, want, [2]string{provider, base})
	}
	_, _, err := Provider("claude")
	require.ErrorContains(t, err, `model provider "claude": use openai, anthropic, gemini, or the URL`)
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]Usage{
		`{"usage":{"input_tokens":5,"output_tokens":2,"input_tokens_details":{"cached_tokens":3}}}`: {5, 2, 3}, // OpenAI's Responses
		`{"usage":{"prompt_tokens":5,"prompt_tokens_details":null}}`:                                {5, 0, 0},
		`{"usage":{"prompt_tokens":-5,"completion_tokens":-1}}`:                                     {},
	} {
		got, ok := usageOf([]byte(body))
		require.Equal(t, []any{want, true}, []any{got, ok}, body)
	}
	for _, body := range []string{`{}`, `{"usage":null}`, `{"usage":"much"}`, `[{"usage":{}}]`, "text \"usage"} {
		_, ok := usageOf([]byte(body))
		require.False(t, ok, body)
	}
	u := Usage{1, 2, 3}
	u.Add(Usage{10, 20, 30})
	require.Equal(t, Usage{11, 22, 33}, u)
	require.Equal(t, int64(4+1+2), Tokens("abcd日本"))
	require.Equal(t, int64(4), Tokens(""))
	require.True(t, json.Valid([]byte(geminiRate)))
}
