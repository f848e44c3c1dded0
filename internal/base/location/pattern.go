package location

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Placeholder, in the name of a file, stands for the value by which results are split.
const Placeholder = "{}"

// What stands for the placeholder if there is no usual value. No value gets a name that begins with '_'.
const (
	NoValue    = "_none"  // the field is missing, or null, a list or an object
	EmptyValue = "_empty" // the empty text
)

const (
	// maxValue is the length in bytes from which a value is cut in a name, and gets a checksum to make up for that.
	maxValue = 150
	// MaxPatternName is how long the name of a file may be, in bytes, with its placeholder: what is made of it is then
	// no longer than file systems allow, even while it is unfinished.
	MaxPatternName = 60
	sumLength      = 16
)

// IsPattern reports whether a location stands for many files: the last element of its path has one placeholder, the
// others none.
func IsPattern(location string) bool {
	rest, _ := SplitQuery(location)
	at := strings.LastIndex(rest, Placeholder)
	return at >= 0 && strings.Index(rest, Placeholder) == at && !strings.ContainsFunc(rest[at:], isSeparatorRune)
}

// PatternName returns the last element of a pattern.
func PatternName(pattern string) string {
	rest, _ := SplitQuery(pattern)
	return rest[strings.LastIndexFunc(rest, isSeparatorRune)+1:]
}

func isSeparatorRune(r rune) bool { return r < utf8.RuneSelf && isSeparator(byte(r)) }

// Fill puts a name in the place of the placeholder of a pattern.
func Fill(pattern, name string) string { return strings.Replace(pattern, Placeholder, name, 1) }

// Covers reports whether a location is that of a file that results may be put into if they are split by the pattern.
// Both are clean, and without a query.
func Covers(pattern, location string) bool {
	prefix, suffix, _ := strings.Cut(pattern, Placeholder)
	rest, begins := strings.CutPrefix(location, prefix)
	name, ends := strings.CutSuffix(rest, suffix)
	if !begins || !ends || name == "" || strings.ContainsFunc(name, isSeparatorRune) {
		return false
	}
	return name[0] != '_' || name == NoValue || name == EmptyValue
}

// ValueName returns a value as it stands in the name of a file: letters, digits, '-', '_' and '.' as they are, any
// other byte as %XX, and so what could give a hidden, reserved or special name. The end of a long value is replaced by
// '~' and a checksum. No two values have the same name.
func ValueName(value string) string {
	if value == "" {
		return EmptyValue
	}
	var b strings.Builder
	cut := -1 // where a long name ends
	for i, r := range value {
		if cut < 0 && b.Len() > maxValue-utf8.UTFMax*len("%XX") {
			cut = b.Len()
		}
		size := utf8.RuneLen(r)
		if r == utf8.RuneError {
			_, size = utf8.DecodeRuneInString(value[i:])
		}
		special := i == 0 && (r == '.' || r == '_') || r == '.' && value[i:] == ".lock"
		if !special && (r == '-' || r == '_' || r == '.' || r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))) {
			b.WriteRune(r)
			continue
		}
		for _, c := range []byte(value[i : i+size]) {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	name := b.String()
	if len(name) <= maxValue {
		return name
	}
	sum := sha256.Sum256([]byte(value))
	return name[:cut] + "~" + hex.EncodeToString(sum[:])[:sumLength]
}
