package remote

import (
	"encoding/json"
	"errors"
	"strings"
)

// gemini is the API of Gemini: generateContent, and batchEmbedContents.
type gemini struct{}

func (gemini) baseURL() string { return "https://generativelanguage.googleapis.com/v1beta" }

// resource is the model's name as the API has it: models/….
func (gemini) resource(m *Model) string {
	if strings.HasPrefix(m.Name, "models/") || strings.HasPrefix(m.Name, "tunedModels/") {
		return m.Name
	}
	return "models/" + m.Name
}

func (g gemini) path(m *Model) string {
	collection, name, _ := strings.Cut(g.resource(m), "/")
	method := ":generateContent"
	if m.Embed {
		method = ":batchEmbedContents"
	}
	return "/" + collection + "/" + percent(name) + method
}

func (gemini) key() (header, variable string) { return "x-goog-api-key: ", "GEMINI_API_KEY" }

func (gemini) fixed() []string { return nil }

func contentIn(text string) map[string]any {
	return map[string]any{"parts": []any{map[string]any{"text": text}}}
}

func (gemini) chat(m *Model, _ bool, system, prompt string, schema *Schema) map[string]any {
	user := contentIn(prompt)
	user["role"] = "user"
	request := map[string]any{"contents": []any{user}}
	if system != "" {
		request["systemInstruction"] = contentIn(system)
	}
	config := map[string]any{}
	if m.MaxOutput > 0 {
		config["maxOutputTokens"] = m.MaxOutput
	}
	if schema != nil {
		config["responseMimeType"] = "application/json"
		config["responseJsonSchema"] = schema.source
	}
	if len(config) > 0 {
		request["generationConfig"] = config
	}
	return request
}

func (g gemini) embed(m *Model, texts []string) map[string]any {
	requests := make([]map[string]any, len(texts))
	for i, text := range texts {
		requests[i] = map[string]any{"model": g.resource(m), "content": contentIn(text)}
	}
	return map[string]any{"requests": requests}
}

func (gemini) params(request map[string]any) []map[string]any {
	if requests, embeds := request["requests"].([]map[string]any); embeds {
		return requests
	}
	config, ok := request["generationConfig"].(map[string]any)
	if !ok {
		config = map[string]any{}
		request["generationConfig"] = config
	}
	return []map[string]any{config}
}

func (gemini) mostTexts() int { return 100 }

func (gemini) said(body []byte) (*said, error) {
	var answer struct {
		Candidates []struct {
			Content struct {
				Parts []struct {
					Text    string `json:"text"`
					Thought bool   `json:"thought"`
				} `json:"parts"`
			} `json:"content"`
			FinishReason string `json:"finishReason"`
		} `json:"candidates"`
		Feedback struct {
			BlockReason string `json:"blockReason"`
		} `json:"promptFeedback"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	if len(answer.Candidates) == 0 {
		if reason := answer.Feedback.BlockReason; reason != "" {
			return &said{finish: "blocked", raw: "blocked (" + reason + ")"}, nil
		}
		return nil, errors.New("it has no candidates")
	}
	candidate := answer.Candidates[0]
	s := &said{raw: candidate.FinishReason}
	for _, part := range candidate.Content.Parts {
		if !part.Thought {
			s.text += part.Text
		}
	}
	switch s.raw {
	case "", "STOP", "FINISH_REASON_UNSPECIFIED":
	case "MAX_TOKENS":
		s.finish = "length"
	default:
		s.finish = strings.ToLower(s.raw)
	}
	return s, nil
}

func (gemini) vectors(body []byte, _ int) ([]json.RawMessage, error) {
	var answer struct {
		Embeddings []struct {
			Values json.RawMessage `json:"values"`
		} `json:"embeddings"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	if answer.Embeddings == nil {
		return nil, errors.New("it has no embeddings")
	}
	vectors := make([]json.RawMessage, len(answer.Embeddings))
	for i, one := range answer.Embeddings {
		vectors[i] = one.Values
	}
	return vectors, nil
}
