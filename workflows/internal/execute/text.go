package execute

import (
	"strings"
	"unicode/utf8"
)

const ellipsis = "…"

// CutText shortens a text to at most limit bytes, an ellipsis included. It never cuts inside a rune, and
// replaces bytes that are not UTF-8.
func CutText(text string, limit int) string {
	text = strings.ToValidUTF8(text, "�")
	if len(text) <= limit {
		return text
	}
	end := max(0, limit-len(ellipsis))
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}
