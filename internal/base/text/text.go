package text

import (
	"strings"
	"unicode/utf8"
)

const ellipsis = "…"

// Cut returns s if it has at most limit bytes, and otherwise its first limit bytes or up to three
// fewer, followed by "…": it never cuts inside a rune. A limit below 0 counts as 0.
func Cut(s string, limit int) string {
	limit = max(0, limit)
	if len(s) <= limit {
		return s
	}
	end := limit
	for end > 0 && limit-end < utf8.UTFMax-1 && !utf8.RuneStart(s[end]) {
		end--
	}
	if !utf8.RuneStart(s[end]) {
		end = limit // not UTF-8: there is no rune to keep whole
	}
	return s[:end] + ellipsis
}

// Fit returns s so that it takes at most limit bytes in JSON, its quotes not counted: if need be its beginning,
// followed by "…". Bytes that are not UTF-8 are replaced. It is for texts of others that go through a history, where
// '<' takes six bytes. A limit has room for "…".
func Fit(s string, limit int) string {
	const quotes = len(`""`)
	if len(s) > limit { // the rest cannot fit, and need not be looked at
		s = Cut(s, limit)
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	if JSONSize(s)-quotes <= limit {
		return s
	}
	end, left := 0, limit-len(ellipsis)
	for i, r := range s {
		next := i + utf8.RuneLen(r)
		if left -= JSONSize(s[i:next]) - quotes; left < 0 {
			break
		}
		end = next
	}
	return s[:end] + ellipsis
}
