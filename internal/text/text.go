// Package text shortens text for messages and reports.
package text

import "unicode/utf8"

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
	return s[:end] + "…"
}
