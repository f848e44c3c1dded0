// Package location says how paths and bucket URLs are written: where a URL's query begins, and
// whether a location names one object or a place for many.
package location

import (
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	schemePattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)
	queryPattern  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*=[^?&]*(&[A-Za-z_][A-Za-z0-9_.-]*=[^?&]*)*$`)
)

// IsURL reports whether a location is a URL; otherwise it is a path.
func IsURL(location string) bool { return schemePattern.MatchString(location) }

// SplitQuery separates the query of a URL, which begins at the last question mark and consists of
// name=value pairs, or of nothing. Any other question mark belongs to the key, or is a wildcard.
// The query is returned with its question mark. A path has no query.
func SplitQuery(location string) (rest, query string) {
	i := strings.LastIndexByte(location, '?')
	if i < 0 || !IsURL(location) || i+1 < len(location) && !queryPattern.MatchString(location[i+1:]) {
		return location, ""
	}
	return location[:i], location[i:]
}

// IsPrefix reports whether a location names a place to put objects under and not one object: it ends
// in '/', before the query if it is a URL.
func IsPrefix(location string) bool {
	if IsURL(location) {
		location, _ = SplitQuery(location)
		return strings.HasSuffix(location, "/")
	}
	return location != "" && isSeparator(location[len(location)-1])
}

func isSeparator(c byte) bool { return c == '/' || c == filepath.Separator }

// Tables are the extensions of outputs that are tables: a row for each result.
var Tables = []string{".csv", ".tsv", ".tab"}

// Table returns which of [Tables] a location ends in, whatever its case, before .gz or .zst if it is compressed; "" if
// in none.
func Table(location string) string {
	rest, _ := SplitQuery(location)
	extension := strings.ToLower(path.Ext(rest))
	if extension == ".gz" || extension == ".zst" {
		extension = strings.ToLower(path.Ext(rest[:len(rest)-len(extension)]))
	}
	if slices.Contains(Tables, extension) {
		return extension
	}
	return ""
}

// Append adds a suffix to a location, before the query if it is a URL.
func Append(location, suffix string) string {
	rest, query := SplitQuery(location)
	return rest + suffix + query
}
