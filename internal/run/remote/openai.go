package remote

import (
	"encoding/json"
	"errors"
	"fmt"
)

// openAI is the API of OpenAI, which many servers have: chat completions, and embeddings.
type openAI struct{}

func (openAI) baseURL() string { return "https://api.openai.com/v1" }

func (openAI) path(m *Model) string {
	if m.Embed {
		return "/embeddings"
	}
	return "/chat/completions"
}

func (openAI) key() (header, variable string) { return "Authorization: Bearer ", "OPENAI_API_KEY" }

func (openAI) fixed() []string { return nil }

func (openAI) chat(m *Model, own bool, system, prompt string, schema *Schema) map[string]any {
	var messages []any
	if system != "" {
		messages = append(messages, map[string]any{"role": "system", "content": system})
	}
	request := map[string]any{
		"model":    m.Name,
		"messages": append(messages, map[string]any{"role": "user", "content": prompt}),
	}
	switch {
	case m.MaxOutput > 0 && own:
		request["max_completion_tokens"] = m.MaxOutput
	case m.MaxOutput > 0: // as all compatible servers have it; OpenAI's newer models refuse it
		request["max_tokens"] = m.MaxOutput
	}
	if schema != nil {
		format := map[string]any{"name": "answer", "schema": schema.source}
		if schema.strict() {
			format["strict"] = true
		}
		request["response_format"] = map[string]any{"type": "json_schema", "json_schema": format}
	}
	return request
}

func (openAI) embed(m *Model, texts []string) map[string]any {
	return map[string]any{"model": m.Name, "input": texts}
}

func (openAI) params(request map[string]any) []map[string]any { return []map[string]any{request} }

func (openAI) mostTexts() int { return 2048 }

func (openAI) said(body []byte) (*said, error) {
	var answer struct {
		Choices []struct {
			Message struct {
				Content *string `json:"content"`
				Refusal *string `json:"refusal"`
			} `json:"message"`
			FinishReason *string `json:"finish_reason"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	if len(answer.Choices) == 0 {
		return nil, errors.New("it has no choices")
	}
	choice := answer.Choices[0]
	s := &said{}
	if choice.FinishReason != nil && *choice.FinishReason != "stop" {
		s.finish, s.raw = *choice.FinishReason, *choice.FinishReason
	}
	if refusal := choice.Message.Refusal; s.finish == "" && refusal != nil && *refusal != "" {
		s.finish, s.raw, s.text = "refusal", "refusal", *refusal
	}
	switch content := choice.Message.Content; {
	case content != nil && (*content != "" || s.text == ""):
		s.text = *content
	case content == nil && s.finish == "":
		return nil, errors.New("its message has no content")
	}
	return s, nil
}

func (openAI) vectors(body []byte, n int) ([]json.RawMessage, error) {
	var answer struct {
		Data []struct {
			Index     *int            `json:"index"`
			Embedding json.RawMessage `json:"embedding"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	if answer.Data == nil {
		return nil, errors.New("it has no data")
	}
	vectors := make([]json.RawMessage, len(answer.Data))
	for i, one := range answer.Data {
		at := i
		if one.Index != nil {
			at = *one.Index
		}
		if at < 0 || at >= len(vectors) || vectors[at] != nil {
			return nil, fmt.Errorf("it has the index %d, of %d", at, n)
		}
		vectors[at] = one.Embedding
	}
	return vectors, nil
}
