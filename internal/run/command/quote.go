package command

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Quote quotes a word if a POSIX shell needs it.
func Quote(word string) string {
	// A text that cannot be written in POSIX can be with $'…', which other shells read.
	for _, shell := range []syntax.LangVariant{syntax.LangPOSIX, syntax.LangBash} {
		if quoted, err := syntax.Quote(word, shell); err == nil {
			return quoted
		}
	}
	return word // with a null byte, which no command line has
}

// Line returns words as a line for a POSIX shell.
func Line(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = Quote(word)
	}
	return strings.Join(quoted, " ")
}
