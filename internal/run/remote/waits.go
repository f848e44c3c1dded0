package remote

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// statedWait returns how long a server asks to wait in its headers or its body, without a cap. ok: it does; a time that
// is past is 0.
func statedWait(h http.Header, problem *problem, now time.Time) (wait time.Duration, ok bool) {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date // its clock says when its times are
	}
	if ms, err := strconv.ParseFloat(strings.TrimSpace(h.Get("Retry-After-Ms")), 64); err == nil && ms >= 0 {
		return inSeconds(ms / 1000), true
	}
	if after := strings.TrimSpace(h.Get("Retry-After")); after != "" {
		if s, err := strconv.ParseFloat(after, 64); err == nil && !math.IsNaN(s) {
			return inSeconds(s), true
		}
		if date, err := http.ParseTime(after); err == nil {
			return max(0, date.Sub(now)), true
		}
	}
	if problem != nil && problem.retry > 0 {
		return problem.retry, true
	}
	return exhausted(h, now)
}

// inSeconds is for any number of seconds.
func inSeconds(s float64) time.Duration {
	switch {
	case !(s > 0):
		return 0
	case s >= math.MaxInt64/float64(time.Second):
		return math.MaxInt64
	}
	return time.Duration(s * float64(time.Second))
}

// exhausted returns when the last of the limits of which nothing remains is reset. OpenAI and those who follow it send
// x-ratelimit-remaining-requests and x-ratelimit-reset-requests, Anthropic anthropic-ratelimit-requests-remaining and
// anthropic-ratelimit-requests-reset, others x-ratelimit-remaining and x-ratelimit-reset. The names of headers are
// canonical, as those of answers are.
func exhausted(h http.Header, now time.Time) (wait time.Duration, ok bool) {
	for name, values := range h {
		var reset string
		switch {
		case strings.HasPrefix(name, "X-Ratelimit-Remaining"):
			reset = strings.Replace(name, "Remaining", "Reset", 1)
		case strings.HasPrefix(name, "Anthropic-") && strings.HasSuffix(name, "-Remaining"):
			reset = strings.TrimSuffix(name, "Remaining") + "Reset"
		default:
			continue
		}
		left, err := strconv.ParseFloat(strings.TrimSpace(values[0]), 64)
		if err != nil || left > 0 {
			continue
		}
		if d, stated := resetIn(h.Get(reset), now); stated {
			wait, ok = max(wait, d), true
		}
	}
	return wait, ok
}

// resetIn returns how long it is until a limit is reset: in Go's form of durations ("6m0s", "20ms"), as a time of
// RFC 3339, in seconds, or as a Unix time in seconds or milliseconds.
func resetIn(text string, now time.Time) (time.Duration, bool) {
	text = strings.TrimSpace(text)
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return max(0, at.Sub(now)), true
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(n) {
		const unixSeconds, unixMillis = 1e9, 1e12 // durations of so many seconds would be 30 years
		switch {
		case n >= unixMillis && n < 1e15:
			return max(0, time.UnixMilli(int64(n)).Sub(now)), true
		case n >= unixSeconds && n < unixMillis:
			return max(0, time.Unix(int64(n), 0).Sub(now)), true
		}
		return inSeconds(n), true
	}
	d, err := time.ParseDuration(strings.ReplaceAll(text, " ", ""))
	return max(0, d), err == nil
}

// retryInfo returns the wait in the details of an error of Google: a google.rpc.RetryInfo.
func retryInfo(details []json.RawMessage) time.Duration {
	for _, detail := range details {
		var info struct {
			Type       string `json:"@type"`
			RetryDelay string `json:"retryDelay"`
		}
		if json.Unmarshal(detail, &info) == nil && strings.HasSuffix(info.Type, "google.rpc.RetryInfo") {
			if d, err := time.ParseDuration(info.RetryDelay); err == nil {
				return max(0, d)
			}
		}
	}
	return 0
}
