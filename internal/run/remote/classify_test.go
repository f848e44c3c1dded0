package remote

import (
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The errors of providers, as they document them or are known to send them.
const (
	openAIQuota     = `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`
	openAIRate      = `{"error":{"message":"Rate limit reached for gpt-x in organization org-1 on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 20s.","type":"requests","param":null,"code":"rate_limit_exceeded"}}`
	openAIKey       = `{"error":{"message":"Incorrect API key provided: sk-ab***yz.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`
	openAIModel     = `{"error":{"message":"The model ` + "`gpt-none`" + ` does not exist or you do not have access to it.","type":"invalid_request_error","param":null,"code":"model_not_found"}}`
	openAIBad       = `{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`
	vllmModel       = `{"object":"error","message":"The model ` + "`m`" + ` does not exist.","type":"NotFoundError","param":null,"code":404}`
	ollamaModel     = `{"error":{"message":"model \"m\" not found, try pulling it first","type":"api_error","param":null,"code":null}}`
	anthropicCredit = `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."}}`
	anthropicKey    = `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`
	anthropicDenied = `{"type":"error","error":{"type":"permission_error","message":"Your API key does not have permission to use the specified resource."}}`
	anthropicModel  = `{"type":"error","error":{"type":"not_found_error","message":"model: claude-none"}}`
	anthropicBusy   = `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`
	anthropicBad    = `{"type":"error","error":{"type":"invalid_request_error","message":"messages: text content blocks must be non-empty"}}`
	geminiKey       = `{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}]}}`
	geminiDenied    = `{"error":{"code":403,"message":"Method doesn't allow unregistered callers.","status":"PERMISSION_DENIED"}}`
	geminiModel     = `{"error":{"code":404,"message":"models/gemini-none is not found for API version v1beta, or is not supported for generateContent.","status":"NOT_FOUND"}}`
	geminiRate      = `{"error":{"code":429,"message":"You exceeded your current quota. Please retry in 45.837906927s.","status":"RESOURCE_EXHAUSTED","details":[
		{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateContentPaidTierInputTokensPerModelPerMinute"}]},
		{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"45.837906927s"}]}}`
)

// H1.
func TestStatus(t *testing.T) {
	t.Parallel()
	const ms, sec = time.Millisecond, time.Second
	model := &Model{Provider: "openai", BaseURL: "https://example.com/v1", Name: "m"}
	fixed := Options{URL: "https://example.com/score"}
	varied := Options{URL: "https://example.com/{id}"}
	of := Options{Model: model}
	type headers = map[string]string
	for name, c := range map[string]struct {
		o       Options
		status  int
		headers headers
		body    string
		verdict Verdict
		kind    string
		wait    time.Duration
		slow    bool
	}{
		"timeout":   {fixed, 408, nil, "", Again, "HTTP408", 0, false},
		"conflict":  {fixed, 409, nil, "", Again, "HTTP409", 0, false},
		"too early": {fixed, 425, nil, "", Again, "HTTP425", 0, false},
		"rate":      {fixed, 429, nil, "", Again, TypeRateLimit, 0, true},
		"down":      {fixed, 500, nil, "<h1>oops</h1>", Again, "HTTP500", 0, false},
		"away":      {fixed, 503, headers{"Retry-After": "2"}, "", Again, "HTTP503", 2 * sec, true},
		"busy":      {of, 529, nil, anthropicBusy, Again, "HTTP529", 0, false},
		"teapot":    {fixed, 418, nil, "short and stout", Fail, "HTTP418", 0, false},
		"bad":       {fixed, 400, headers{"Retry-After": "9"}, openAIBad, Fail, "HTTP400", 0, false},
		"anthropic": {of, 400, nil, anthropicBad, Fail, "HTTP400", 0, false},
		"moved":     {fixed, 304, nil, "", Fail, "HTTP304", 0, false},

		"a week":           {fixed, 429, headers{"Retry-After": "604800"}, "", Again, TypeRateLimit, 7 * 24 * time.Hour, true},
		"ms":               {fixed, 429, headers{"Retry-After-Ms": "1500", "Retry-After": "2"}, "", Again, TypeRateLimit, 1500 * ms, true},
		"RetryInfo":        {of, 429, nil, geminiRate, Again, TypeRateLimit, 45837906927, true},
		"RetryInfo, 503":   {of, 503, nil, geminiRate, Again, "HTTP503", 45837906927, true},
		"RetryInfo, list":  {of, 429, nil, "[" + geminiRate + "]", Again, TypeRateLimit, 45837906927, true},
		"used up":          {of, 429, headers{"X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Reset-Requests": "6m0s"}, openAIRate, Again, TypeRateLimit, 6 * time.Minute, true},
		"stated, used up":  {of, 429, headers{"Retry-After": "3", "X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Reset-Requests": "6m0s"}, openAIRate, Again, TypeRateLimit, 3 * sec, true},
		"do not":           {fixed, 503, headers{"X-Should-Retry": "false", "Retry-After": "3"}, "", Fail, "HTTP503", 0, false},
		"do not, rate":     {fixed, 429, headers{"X-Should-Retry": "false"}, "", Fail, TypeRateLimit, 0, false},
		"do":               {fixed, 400, headers{"X-Should-Retry": "true"}, "", Again, "HTTP400", 0, false},
		"do, key":          {fixed, 401, headers{"X-Should-Retry": "true"}, "", Again, "HTTP401", 0, false},
		"do, no such key":  {of, 401, headers{"X-Should-Retry": "true"}, openAIKey, Stop, TypeWrongKey, 0, false},
		"do, but no money": {of, 429, headers{"X-Should-Retry": "true"}, openAIQuota, Stop, TypeNoCredit, 0, false},

		"402":              {fixed, 402, nil, "", Stop, TypeNoCredit, 0, false},
		"OpenAI quota":     {of, 429, headers{"Retry-After": "3"}, openAIQuota, Stop, TypeNoCredit, 0, false},
		"Anthropic credit": {of, 400, nil, anthropicCredit, Stop, TypeNoCredit, 0, false},
		"401":              {fixed, 401, nil, "", Stop, TypeWrongKey, 0, false},
		"OpenAI key":       {of, 401, nil, openAIKey, Stop, TypeWrongKey, 0, false},
		"Anthropic key":    {of, 401, nil, anthropicKey, Stop, TypeWrongKey, 0, false},
		"Anthropic denied": {of, 403, nil, anthropicDenied, Stop, TypeWrongKey, 0, false},
		"Gemini key":       {of, 400, nil, geminiKey, Stop, TypeWrongKey, 0, false},
		"Gemini denied":    {of, 403, nil, geminiDenied, Stop, TypeWrongKey, 0, false},
		"403":              {fixed, 403, nil, "no", Fail, "HTTP403", 0, false},
		"403 of an item":   {varied, 403, nil, geminiDenied, Fail, "HTTP403", 0, false},
		"OpenAI model":     {of, 404, nil, openAIModel, Stop, TypeUnknownModel, 0, false},
		"OpenAI access":    {of, 403, nil, openAIModel, Stop, TypeUnknownModel, 0, false},
		"vLLM model":       {of, 404, nil, vllmModel, Stop, TypeUnknownModel, 0, false},
		"Ollama model":     {of, 404, nil, ollamaModel, Stop, TypeUnknownModel, 0, false},
		"Anthropic model":  {of, 404, nil, anthropicModel, Stop, TypeUnknownModel, 0, false},
		"Gemini model":     {of, 404, nil, geminiModel, Stop, TypeUnknownModel, 0, false},
		"404":              {fixed, 404, nil, "not here", Stop, TypeWrongURL, 0, false},
		"405":              {fixed, 405, nil, "", Stop, TypeWrongURL, 0, false},
		"404 of an item":   {varied, 404, nil, "not here", Fail, "HTTP404", 0, false},
	} {
		e, err := New(c.o)
		require.NoError(t, err)
		h := http.Header{}
		for key, value := range c.headers {
			h.Set(key, value)
		}
		f := e.statusFault(c.status, h, []byte(c.body))
		require.Equal(t, []any{c.verdict, c.kind, c.wait, c.slow, c.status}, []any{f.Verdict, f.Type, f.Wait, f.SlowDown, f.Status}, name)
		require.Equal(t, "error", f.Kind)
		if c.verdict == Stop {
			require.Regexp(t, `\. (Add credit|Check the (key|model|URL))`, f.Message, name)
		}
	}
}

// Where the endpoint has worked, a 404 is about the item.
func TestStatus_NotFoundLater(t *testing.T) {
	t.Parallel()
	e := open(t, Options{URL: serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Id") == "2" {
			http.Error(w, "no such user", http.StatusNotFound)
		}
	}), Headers: []string{"X-Id: {}"}})
	require.Equal(t, `""`, result(t, e, line("1")))
	f := faultOf(t, e, line("2"))
	require.Equal(t, []any{Fail, "HTTP404"}, []any{f.Verdict, f.Type})
	require.Contains(t, f.Message, "answered 404 Not Found: no such user")
}

// H2.
func TestStatedWait(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		headers map[string]string
		wait    time.Duration
		ok      bool
	}{
		"none":            {nil, 0, false},
		"seconds":         {map[string]string{"Retry-After": " 7 "}, 7 * time.Second, true},
		"half":            {map[string]string{"Retry-After": "0.5"}, 500 * time.Millisecond, true},
		"negative":        {map[string]string{"Retry-After": "-5"}, 0, true},
		"forever":         {map[string]string{"Retry-After": "1e30"}, 1<<63 - 1, true},
		"date":            {map[string]string{"Retry-After": "Fri, 01 May 2026 12:01:30 GMT"}, 90 * time.Second, true},
		"past":            {map[string]string{"Retry-After": "Fri, 01 May 2026 11:00:00 GMT"}, 0, true},
		"a week":          {map[string]string{"Retry-After": "Fri, 08 May 2026 12:00:00 GMT"}, 7 * 24 * time.Hour, true},
		"its own clock":   {map[string]string{"Retry-After": "Fri, 01 May 2026 13:00:05 GMT", "Date": "Fri, 01 May 2026 13:00:00 GMT"}, 5 * time.Second, true},
		"nonsense":        {map[string]string{"Retry-After": "soon", "Retry-After-Ms": "x"}, 0, false},
		"requests left":   {map[string]string{"X-RateLimit-Remaining-Requests": "1", "X-RateLimit-Reset-Requests": "1s"}, 0, false},
		"no requests":     {map[string]string{"X-RateLimit-Remaining-Requests": "0", "X-RateLimit-Reset-Requests": "20ms"}, 20 * time.Millisecond, true},
		"the longer one":  {map[string]string{"X-RateLimit-Remaining-Requests": "0", "X-RateLimit-Reset-Requests": "1s", "X-RateLimit-Remaining-Tokens": "-27689", "X-RateLimit-Reset-Tokens": "64"}, 64 * time.Second, true},
		"one of two":      {map[string]string{"X-RateLimit-Remaining-Requests": "5", "X-RateLimit-Reset-Requests": "1h", "X-RateLimit-Remaining-Tokens": "0", "X-RateLimit-Reset-Tokens": "1m12.5s"}, 72500 * time.Millisecond, true},
		"no reset":        {map[string]string{"X-RateLimit-Remaining-Requests": "0"}, 0, false},
		"Anthropic":       {map[string]string{"Anthropic-Ratelimit-Output-Tokens-Remaining": "0", "Anthropic-Ratelimit-Output-Tokens-Reset": "2026-05-01T12:00:30Z"}, 30 * time.Second, true},
		"Anthropic left":  {map[string]string{"Anthropic-Ratelimit-Requests-Remaining": "3", "Anthropic-Ratelimit-Requests-Reset": "2026-05-01T12:00:30Z"}, 0, false},
		"Anthropic past":  {map[string]string{"Anthropic-Ratelimit-Requests-Remaining": "0", "Anthropic-Ratelimit-Requests-Reset": "2026-05-01T11:00:30Z"}, 0, true},
		"GitHub":          {map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1777636860"}, time.Minute, true},
		"in milliseconds": {map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1777636801500"}, 1500 * time.Millisecond, true},
	} {
		h := http.Header{}
		for key, value := range maps.All(c.headers) {
			h.Set(key, value)
		}
		wait, ok := statedWait(h, nil, now)
		require.Equal(t, []any{c.wait, c.ok}, []any{wait, ok}, name)
	}
}

// A limit that is used up slows down although the answer is a result.
func TestDo_UsedUp(t *testing.T) {
	t.Parallel()
	remaining := "1"
	e := open(t, Options{URL: serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Ratelimit-Remaining-Tokens", remaining)
		w.Header().Set("X-Ratelimit-Reset-Tokens", "1m30s")
	})})
	reply, err := do(t, e, line("x"))
	require.NoError(t, err)
	require.False(t, reply.SlowDown)
	remaining = "0"
	reply, err = do(t, e, line("x"))
	require.NoError(t, err)
	require.Equal(t, []any{true, 90 * time.Second}, []any{reply.SlowDown, reply.Wait})
}

// Each of many refusals is one, and all of them share a connection.
func TestDo_StreamOfRefusals(t *testing.T) {
	t.Parallel()
	from := map[string]bool{}
	e := open(t, Options{URL: serve(t, func(w http.ResponseWriter, r *http.Request) {
		from[r.RemoteAddr] = true
		w.Header().Set("Retry-After", "1")
		http.Error(w, openAIRate, http.StatusTooManyRequests)
	})})
	for range 200 {
		f := faultOf(t, e, line("x"))
		require.Equal(t, []any{Again, TypeRateLimit, true, time.Second}, []any{f.Verdict, f.Type, f.SlowDown, f.Wait})
	}
	require.Len(t, from, 1)
}
