package text

import (
	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
)

// Thousands writes n with commas: 12,345.
func Thousands(n int64) string { return humanize.Comma(n) }

// Count writes a number of things, each of which is a noun: 1 item, 12,345 retries.
func Count[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Thousands(int64(n)) + " " + english.PluralWord(2, noun, "")
}
