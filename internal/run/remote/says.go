package remote

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// problem is an error as providers write it. OpenAI, and servers that follow it: {"error": {"message", "type",
// "code"}}; Anthropic: {"type": "error", "error": {"type", "message"}}; Google: {"error": {"code", "message", "status",
// "details"}}, or that in a list; others {"message", "type", "code"} or {"error": "text"}.
type problem struct {
	words   []string // its type, code, status and reasons, in lower case
	message string   // in lower case
	code    int      // a status, if it names one
	retry   time.Duration
}

// problemOf returns the error in a body; nil if there is none.
func problemOf(body []byte) *problem {
	body = bytes.TrimSpace(body)
	if len(body) > 0 && body[0] == '[' {
		var list []json.RawMessage
		if json.Unmarshal(body, &list) != nil || len(list) == 0 {
			return nil
		}
		body = list[0]
	}
	var outer struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &outer) != nil {
		return nil
	}
	if len(outer.Error) == 0 || string(outer.Error) == "null" {
		return problemIn(body)
	}
	var said string
	if json.Unmarshal(outer.Error, &said) == nil {
		return &problem{message: strings.ToLower(said)}
	}
	return problemIn(outer.Error)
}

func problemIn(object []byte) *problem {
	var in struct {
		Message json.RawMessage
		Type    json.RawMessage
		Status  json.RawMessage
		Code    json.RawMessage
		Details json.RawMessage
	}
	if json.Unmarshal(object, &in) != nil {
		return nil
	}
	p := &problem{message: lowerText(in.Message)}
	for _, word := range []json.RawMessage{in.Type, in.Status, in.Code} {
		if text := lowerText(word); text != "" {
			p.words = append(p.words, text)
		}
	}
	_ = json.Unmarshal(in.Code, &p.code)
	var details []json.RawMessage
	if json.Unmarshal(in.Details, &details) == nil {
		p.retry = retryInfo(details)
		for _, detail := range details {
			var info struct{ Reason string }
			if json.Unmarshal(detail, &info) == nil && info.Reason != "" {
				p.words = append(p.words, strings.ToLower(info.Reason))
			}
		}
	}
	if p.message == "" && len(p.words) == 0 {
		return nil
	}
	return p
}

// lowerText returns a string in JSON in lower case; "" if it is none.
func lowerText(value json.RawMessage) string {
	var s string
	if json.Unmarshal(value, &s) != nil {
		return ""
	}
	return strings.ToLower(s)
}

// has reports whether the error is of one of the types.
func (p *problem) has(words ...string) bool {
	return p != nil && slices.ContainsFunc(words, func(w string) bool { return slices.Contains(p.words, w) })
}

// says reports whether the message has one of the texts, which are in lower case.
func (p *problem) says(texts ...string) bool {
	return p != nil && slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(p.message, t) })
}

// noCredit reports whether an account has no money left. Anthropic says so with status 400, OpenAI with 429, which is a
// rate limit's too; Gemini's daily quota is one, and passes.
func (p *problem) noCredit() bool {
	return p.has("insufficient_quota", "billing_error", "billing_hard_limit_reached", "billing_not_active",
		"insufficient_balance") ||
		p.says("credit balance is too low", "credits are depleted", "insufficient balance", "insufficient credits",
			"billing hard limit")
}

// wrongKey reports whether a key is refused, or may not do what is asked of it.
func (p *problem) wrongKey() bool {
	return p.has("invalid_api_key", "authentication_error", "permission_error", "unauthenticated", "permission_denied",
		"api_key_invalid", "invalid_authentication", "incorrect_api_key", "unsupported_country_region_territory",
		"account_deactivated", "service_disabled") ||
		p.says("api key not valid", "incorrect api key", "invalid api key", "api key expired")
}

// unknownModel reports whether there is no such model, or not for this key. model: the request names one.
func (p *problem) unknownModel(model bool) bool {
	if p.has("model_not_found", "deploymentnotfound") {
		return true
	}
	missing := p.has("not_found_error", "not_found", "notfounderror") ||
		p.says("does not exist", "not found", "is not supported")
	return model && p.says("model") && missing
}
