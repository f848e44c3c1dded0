package remote

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// Usage counts tokens.
type Usage struct {
	In     int64 // of the request, with the Cached ones
	Out    int64 // of the answer, with those of the model's thoughts
	Cached int64 // of In: read from a provider's cache
}

// Add adds what another request took.
func (u *Usage) Add(other Usage) {
	u.In += other.In
	u.Out += other.Out
	u.Cached += other.Cached
}

// Tokens estimates how many tokens a text has: one for four ASCII characters, one for each other character, and 4 for
// what stands around it. Tokenizers of English, code and JSON make about that; of Chinese and Japanese they make about
// one token of a character, and of other languages fewer, so the estimate is on the safe side there.
func Tokens(text string) int64 {
	ascii, other := 0, 0
	for i := 0; i < len(text); {
		if text[i] < utf8.RuneSelf {
			ascii, i = ascii+1, i+1
			continue
		}
		_, size := utf8.DecodeRuneInString(text[i:])
		other, i = other+1, i+size
	}
	return int64((ascii+3)/4 + other + 4)
}

// usageOf returns the usage in an answer, in the form of OpenAI, Anthropic or Gemini. ok: it has one.
func usageOf(body []byte) (u Usage, ok bool) {
	if !bytes.Contains(body, []byte(`"usage`)) {
		return u, false
	}
	var answer struct {
		Usage *struct {
			Prompt     int64 `json:"prompt_tokens"` // OpenAI: with the cached ones
			Completion int64 `json:"completion_tokens"`
			Details    struct {
				Cached int64 `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
			Input        int64 `json:"input_tokens"` // Anthropic: without what is read from the cache or written to it
			Output       int64 `json:"output_tokens"`
			CacheWritten int64 `json:"cache_creation_input_tokens"`
			CacheRead    int64 `json:"cache_read_input_tokens"`
			InputDetails struct {
				Cached int64 `json:"cached_tokens"` // OpenAI's Responses: of input_tokens
			} `json:"input_tokens_details"`
		} `json:"usage"`
		Metadata *struct {
			Prompt     int64 `json:"promptTokenCount"` // Gemini: with the cached ones
			Candidates int64 `json:"candidatesTokenCount"`
			Thoughts   int64 `json:"thoughtsTokenCount"`
			Tool       int64 `json:"toolUsePromptTokenCount"`
			Cached     int64 `json:"cachedContentTokenCount"`
		} `json:"usageMetadata"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return u, false
	}
	if a := answer.Usage; a != nil {
		return Usage{
			In:     max(0, a.Prompt) + max(0, a.Input) + max(0, a.CacheWritten) + max(0, a.CacheRead),
			Out:    max(0, a.Completion) + max(0, a.Output),
			Cached: max(0, a.Details.Cached) + max(0, a.CacheRead) + max(0, a.InputDetails.Cached),
		}, true
	}
	if m := answer.Metadata; m != nil {
		return Usage{
			In:     max(0, m.Prompt) + max(0, m.Tool),
			Out:    max(0, m.Candidates) + max(0, m.Thoughts),
			Cached: max(0, m.Cached),
		}, true
	}
	return u, false
}
