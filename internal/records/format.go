package records

import (
	"fmt"
	"path"
	"strings"

	"github.com/stint-run/stint/internal/wire"
)

// The formats. A blank line is an item of Text, and of no other.
const (
	JSONL wire.Format = "jsonl" // one JSON value a line
	CSV   wire.Format = "csv"   // RFC 4180, with a header; an item is a record
	Text  wire.Format = "text"  // one line an item
	JSON  wire.Format = "json"  // JSON values of any number of lines each, or one array of them
)

// tsv is a name of CSV with tabs between the fields.
const tsv = "tsv"

// Tab is the delimiter of TSV.
const Tab = "\t"

// tabs is the shape of TSV: its fields have no quotes, unless somebody says that they have.
var tabs = wire.Shape{Format: CSV, Delimiter: Tab, Quote: Unquoted}

// The guesses. It is empty if the format was chosen.
const (
	NameJSON  wire.Guess = "json"  // exports of all kinds have it
	NameJSONL wire.Guess = "jsonl" // lines, unless they make no sense
)

// formatNames are for messages.
const formatNames = "jsonl, json, csv, tsv or text"

// UnknownFormatError reports an unknown name of a format, or a path that does not show the format.
type UnknownFormatError struct {
	Path string // the path whose extension says nothing; empty if a name was parsed
	Name string // the name, or the path's extension with its dot, which may be empty
}

// Error says what is unknown and what to do about it.
func (e *UnknownFormatError) Error() string {
	switch {
	case e.Path == "":
		return fmt.Sprintf("unknown format %q: choose %s", e.Name, formatNames)
	case e.Name == "" && CompressionOf(e.Path) != None:
		return fmt.Sprintf("unknown format of %q: it has no extension before %s; "+
			"choose the format with --format %s", e.Path, path.Ext(e.Path), formatNames)
	case e.Name == "":
		return fmt.Sprintf("unknown format of %q: it has no extension; "+
			"choose the format with --format %s", e.Path, formatNames)
	case packed[strings.ToLower(e.Name)] != "":
		return fmt.Sprintf("unknown format of %q: %s is not supported: %s %s | stint run --format FORMAT - (%s)",
			e.Path, e.Name, packed[strings.ToLower(e.Name)], path.Base(e.Path), formatNames)
	default:
		return fmt.Sprintf("unknown format of %q: its extension is %q; "+
			"choose the format with --format %s", e.Path, e.Name, formatNames)
	}
}

// packed are extensions of compressed files that are not read, with the program that unpacks them.
var packed = map[string]string{".bz2": "bzcat", ".xz": "xzcat", ".lz4": "lz4cat", ".br": "brotli -dc", ".z": "zcat", ".zip": "unzip -p"}

// FormatOf chooses the format by the path's extension, whatever its case, after taking off the one
// of a compression: .jsonl, .ndjson and .json are JSONL until [Look] has looked at the source,
// .csv is CSV, .tsv and .tab are CSV with tabs and without quotes, .txt, .text, .log and .lines are Text. The error is an
// *UnknownFormatError.
func FormatOf(name string) (wire.Shape, error) {
	bare := name
	if CompressionOf(name) != None {
		bare = strings.TrimSuffix(name, path.Ext(name))
	}
	ext := path.Ext(bare)
	switch strings.ToLower(ext) {
	case ".jsonl", ".ndjson":
		return wire.Shape{Format: JSONL, Guess: NameJSONL}, nil
	case ".json":
		return wire.Shape{Format: JSONL, Guess: NameJSON}, nil
	case ".csv":
		return wire.Shape{Format: CSV}, nil
	case ".tsv", ".tab":
		return tabs, nil
	case ".txt", ".text", ".log", ".lines":
		return wire.Shape{Format: Text}, nil
	}
	return wire.Shape{}, &UnknownFormatError{Path: name, Name: ext}
}

// ParseFormat returns the format named "jsonl", "json", "csv", "tsv" or "text", and an *UnknownFormatError for any
// other name. "tsv" is CSV with tabs and without quotes.
func ParseFormat(s string) (wire.Shape, error) {
	switch f := wire.Format(s); f {
	case JSONL, JSON, CSV, Text:
		return wire.Shape{Format: f}, nil
	case tsv:
		return tabs, nil
	}
	return wire.Shape{}, &UnknownFormatError{Name: s}
}
