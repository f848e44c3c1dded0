// Package formats lists the formats of input by name, for all that asks which there are: checks of a job's spec, help,
// completion, messages, names of files. How items of a format are found, read and written is in internal/data/records,
// where its table has each of them.
package formats

import (
	"slices"
	"strings"
)

// Auto is what a job's spec has for the format if each input's extension decides.
const Auto = "auto"

// Format is one that a job's spec may name.
type Format struct {
	Name string
	// Extensions of files that have it, with the dot, in lower case: the first one is that of files that stint writes.
	Extensions []string
	// Of is the format of which this is one way to write it, with this Delimiter and Quote. Empty: it is a format
	// itself.
	Of, Delimiter, Quote string
	// Delimited means that items are records, whose fields have a delimiter, and maybe quotes, that may be chosen.
	Delimited bool
	// Lines means that each item is a line, JSON or text, which filters get as it is. Feeds take these formats.
	Lines bool
}

// all are the formats, as messages list them.
var all = []Format{
	{Name: "jsonl", Extensions: []string{".jsonl", ".ndjson"}, Lines: true},
	{Name: "json", Extensions: []string{".json"}},
	{Name: "csv", Extensions: []string{".csv"}, Delimited: true},
	{Name: "tsv", Extensions: []string{".tsv", ".tab"}, Of: "csv", Delimiter: "\t", Quote: "none", Delimited: true},
	{Name: "text", Extensions: []string{".txt", ".text", ".log", ".lines"}, Lines: true},
	{Name: "text0", Extensions: []string{".text0"}},
}

// All returns the formats, as messages list them. It must not be changed.
func All() []Format { return all }

// Named returns the format of a name; ok is false if there is none.
func Named(name string) (f Format, ok bool) {
	return first(func(f Format) bool { return f.Name == name })
}

// ByExtension returns the format of files with an extension, with its dot, whatever its case; ok is false if there is
// none.
func ByExtension(extension string) (f Format, ok bool) {
	extension = strings.ToLower(extension)
	return first(func(f Format) bool { return slices.Contains(f.Extensions, extension) })
}

// Extension returns the extension of files that stint writes in a format, with its dot: with this delimiter, if a
// format of its own has it.
func Extension(format, delimiter string) string {
	f, ok := first(func(f Format) bool { return f.Of == format && f.Delimiter == delimiter })
	if !ok {
		f, _ = Named(format)
	}
	return f.Extensions[0]
}

func first(is func(Format) bool) (f Format, ok bool) {
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i], true
	}
	return Format{}, false
}

// Names returns the names of all formats, and more, for a message: "jsonl, json, csv, tsv or text".
func Names(more ...string) string {
	return list(func(Format) bool { return true }, more...)
}

// LineNames returns the names of the formats of which each item is a line, for a message: "jsonl or text".
func LineNames() string {
	return list(func(f Format) bool { return f.Lines })
}

func list(is func(Format) bool, more ...string) string {
	var names []string
	for _, f := range all {
		if is(f) {
			names = append(names, f.Name)
		}
	}
	names = append(names, more...)
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
