package records

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	"github.com/stint-run/stint/internal/base/formats"
	"github.com/stint-run/stint/internal/wire"
)

// The guesses. It is empty if the format was chosen.
const (
	nameJSON  wire.Guess = "json"  // exports of all kinds have it
	nameJSONL wire.Guess = "jsonl" // lines, unless they make no sense
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
		return fmt.Sprintf("unknown format %q: choose %s", e.Name, formats.Names())
	case e.Name == "" && CompressionOf(e.Path) != None:
		return fmt.Sprintf("unknown format of %q: it has no extension before %s; "+
			"choose the format with --format %s", e.Path, path.Ext(e.Path), formats.Names())
	case e.Name == "":
		return fmt.Sprintf("unknown format of %q: it has no extension; "+
			"choose the format with --format %s", e.Path, formats.Names())
	case e.Packed():
		return fmt.Sprintf("unknown format of %q: %s is not supported: %s %s | stint run --format FORMAT - (%s)",
			e.Path, e.Name, packed[strings.ToLower(e.Name)], path.Base(e.Path), formats.Names())
	default:
		return fmt.Sprintf("unknown format of %q: its extension is %q; "+
			"choose the format with --format %s", e.Path, e.Name, formats.Names())
	}
}

// Packed reports whether the extension is that of a compression that is not read.
func (e *UnknownFormatError) Packed() bool { return packed[strings.ToLower(e.Name)] != "" }

// packed are extensions of compressed files that are not read, with the program that unpacks them.
var packed = map[string]string{".bz2": "bzcat", ".xz": "xzcat", ".lz4": "lz4cat", ".br": "brotli -dc", ".z": "zcat", ".zip": "unzip -p"}

// FormatOf chooses the format by the path's extension, whatever its case, after taking off the one of a compression:
// see [formats.All]. The one of JSON lines, or of JSON, shows only a guess, until [Look] has looked at the source. The
// error is an *UnknownFormatError.
func FormatOf(name string) (wire.Shape, error) {
	bare := name
	if CompressionOf(name) != None {
		bare = strings.TrimSuffix(name, path.Ext(name))
	}
	f, ok := formats.ByExtension(path.Ext(bare))
	if !ok {
		return wire.Shape{}, &UnknownFormatError{Path: name, Name: path.Ext(bare)}
	}
	shape := shapeOf(f)
	if guess := formatOf(shape.Format).guess; guess != "" {
		shape = wire.Shape{Format: JSONL, Guess: guess}
	}
	return shape, nil
}

// ParseFormat returns the format of a name, and an *UnknownFormatError if there is none: see [formats.All].
func ParseFormat(s string) (wire.Shape, error) {
	f, ok := formats.Named(s)
	if !ok {
		return wire.Shape{}, &UnknownFormatError{Name: s}
	}
	return shapeOf(f), nil
}

// shapeOf returns the shape that a name shows.
func shapeOf(f formats.Format) wire.Shape {
	return wire.Shape{Format: wire.Format(cmp.Or(f.Of, f.Name)), Delimiter: f.Delimiter, Quote: f.Quote}
}
