package records

import (
	"fmt"
	"path"
	"strings"
)

// Format is the format of the items in a file.
type Format string

// The formats. In each of them a blank line is not an item.
const (
	JSONL Format = "jsonl" // one JSON value a line
	CSV   Format = "csv"   // RFC 4180, with a header; an item is a record
	Text  Format = "text"  // one line an item
)

// UnknownFormatError reports an unknown name of a format, or a path that does not show the format.
type UnknownFormatError struct {
	Path string // the path whose extension says nothing; empty if a name was parsed
	Name string // the name, or the path's extension with its dot, which may be empty
}

// Error says what is unknown and what to do about it.
func (e *UnknownFormatError) Error() string {
	switch {
	case e.Path == "":
		return fmt.Sprintf("unknown format %q: choose jsonl, csv or text", e.Name)
	case e.Name == "":
		return fmt.Sprintf("cannot tell the format of %q, which has no extension: "+
			"choose it with --format jsonl, csv or text", e.Path)
	default:
		return fmt.Sprintf("cannot tell the format of %q from its extension %q: "+
			"choose it with --format jsonl, csv or text", e.Path, e.Name)
	}
}

// FormatOf chooses the format by the path's extension, whatever its case, after taking off the one
// of a compression: .jsonl, .ndjson and .json (taken to hold one value a line, as exports do) are
// JSONL, .csv is CSV, .txt, .text, .log and .lines are Text. The error is an *UnknownFormatError.
func FormatOf(name string) (Format, error) {
	bare := name
	if CompressionOf(name) != None {
		bare = strings.TrimSuffix(name, path.Ext(name))
	}
	ext := path.Ext(bare)
	switch strings.ToLower(ext) {
	case ".jsonl", ".ndjson", ".json":
		return JSONL, nil
	case ".csv":
		return CSV, nil
	case ".txt", ".text", ".log", ".lines":
		return Text, nil
	}
	return "", &UnknownFormatError{Path: name, Name: ext}
}

// ParseFormat returns the format named "jsonl", "csv" or "text", and an *UnknownFormatError for any
// other name.
func ParseFormat(s string) (Format, error) {
	switch f := Format(s); f {
	case JSONL, CSV, Text:
		return f, nil
	}
	return "", &UnknownFormatError{Name: s}
}
