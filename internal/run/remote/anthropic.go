package remote

import (
	"encoding/json"
	"errors"
	"strings"
)

// anthropic is the API of Anthropic: messages.
type anthropic struct{}

func (anthropic) baseURL() string { return "https://api.anthropic.com/v1" }

func (anthropic) path(*Model) string { return "/messages" }

func (anthropic) key() (header, variable string) { return "x-api-key: ", "ANTHROPIC_API_KEY" }

func (anthropic) fixed() []string { return []string{"anthropic-version: 2023-06-01"} }

// anthropicOutput is the limit of tokens if none is given: the API needs one.
const anthropicOutput = 4096

func (anthropic) chat(m *Model, _ bool, system, prompt string, schema *Schema) map[string]any {
	request := map[string]any{
		"model":      m.Name,
		"max_tokens": m.MaxOutput,
		"messages":   []any{map[string]any{"role": "user", "content": prompt}},
	}
	if m.MaxOutput == 0 {
		request["max_tokens"] = anthropicOutput
	}
	if system != "" {
		request["system"] = system
	}
	if schema != nil {
		format := map[string]any{"type": "json_schema", "schema": schema.source}
		request["output_config"] = map[string]any{"format": format}
	}
	return request
}

func (anthropic) embed(*Model, []string) map[string]any { return nil } // it has none: mostTexts

func (anthropic) params(request map[string]any) []map[string]any { return []map[string]any{request} }

func (anthropic) mostTexts() int { return 0 }

func (anthropic) said(body []byte) (*said, error) {
	var answer struct {
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
		StopReason *string `json:"stop_reason"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	if answer.Content == nil {
		return nil, errors.New("it has no content")
	}
	s := &said{}
	var b strings.Builder
	for _, block := range answer.Content {
		if block.Type == "text" {
			b.WriteString(block.Text)
		}
	}
	s.text = b.String()
	if answer.StopReason != nil {
		s.raw = *answer.StopReason
	}
	switch s.raw {
	case "", "end_turn", "stop_sequence":
	case "max_tokens", "model_context_window_exceeded":
		s.finish = "length"
	default:
		s.finish = s.raw
	}
	return s, nil
}

func (anthropic) vectors([]byte, int) ([]json.RawMessage, error) {
	return nil, errors.New("it has no embeddings")
}
