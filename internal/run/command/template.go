// Package command makes the command of an item out of a template with placeholders.
//
// A value stays inside its word, whatever it holds: words are split, and scripts parsed, before any value is
// known. The placeholders are those of GNU parallel, and fields of items:
//
//	{}  the item          {.}  without its extension   {/}  its base name   {//}  its directory   {/.}  base name without extension
//	{#} its number, from 1                             {%}  its slot's number, from 1
//	{1} {2} … {-1}  a column                           {name} {a.b}  a field of a JSON or CSV item
//	{out} the file that the command writes, if there is one
//
// Columns and fields may have one of the endings . / // /. as well: {1/.}, {name//}. {{ and }} are braces.
package command

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Template is a command with placeholders. It is safe for concurrent use.
type Template struct{ words []word }

// word is a word of a command, in parts.
type word []part

// part is either text or a placeholder.
type part struct {
	text  string
	value *placeholder
}

// placeholder stands for a value of an item.
type placeholder struct {
	text   string // as it was written
	of     subject
	column int      // counted from 1, or from the end: -1 is the last one
	field  []string // a path
	form   form
}

// subject is what of an item a placeholder stands for.
type subject int

const (
	wholeItem subject = iota
	itemNumber
	slotNumber
	itemColumn
	itemField
)

// form is how the value of a placeholder is changed.
type form string

const (
	asIs         form = ""
	withoutExt   form = "."
	baseName     form = "/"
	directory    form = "//"
	baseNoExt    form = "/."
	placeholders      = "{} {.} {/} {//} {/.} {#} {%} {1} {-1} {name} {a.b}"
)

// New returns the template of a command: of words that are split already, or of a script for a shell (default: sh).
// Given means that the command gets the item in another way: without a placeholder it has none of it.
func New(words []string, script, shell string, given bool) (*Template, error) {
	switch {
	case script != "" && len(words) > 0:
		return nil, errors.New("it has either words or a script")
	case script != "":
		return parseShell(script, cmp.Or(shell, "sh"), given)
	case len(words) == 0 || words[0] == "":
		return nil, errors.New("it is empty")
	case given:
		t, _, err := parse(words)
		return t, err
	}
	return Parse(words)
}

// Parse returns the template of a command whose words are split already. A template without a placeholder gets the item
// as its last word.
func Parse(words []string) (*Template, error) {
	t, found, err := parse(words)
	if err != nil {
		return nil, err
	}
	if !found {
		t.words = append(t.words, word{{value: &placeholder{text: "{}"}}})
	}
	return t, nil
}

// ParseName returns the template of a file's name, which differs from item to item: the only word of its command.
func ParseName(name string) (*Template, error) {
	t, found, err := parse([]string{name})
	if err == nil && !found {
		err = fmt.Errorf("%q has no placeholder, so that all items would have the same file: there are %s", name, placeholders)
	}
	return t, err
}

// parse parses words. It reports whether there is a placeholder in them.
func parse(words []string) (t *Template, found bool, err error) {
	t = &Template{}
	for _, text := range words {
		w, err := parseWord(text)
		if err != nil {
			return nil, false, err
		}
		for _, p := range w {
			found = found || p.value != nil
		}
		t.words = append(t.words, w)
	}
	return t, found, nil
}

// NamesOut reports whether the template has the placeholder {out}.
func (t *Template) NamesOut() bool {
	for _, w := range t.words {
		for _, p := range w {
			if p.value != nil && p.value.of == itemField && len(p.value.field) == 1 && p.value.field[0] == outName {
				return true
			}
		}
	}
	return false
}

// Program returns the program that the template runs; "" if it differs from item to item.
func (t *Template) Program() string {
	text := ""
	for _, p := range t.words[0] {
		if p.value != nil {
			return ""
		}
		text += p.text
	}
	return text
}

func parseWord(text string) (w word, err error) {
	literal := ""
	for text != "" {
		switch {
		case strings.HasPrefix(text, "{{"), strings.HasPrefix(text, "}}"):
			literal, text = literal+text[:1], text[2:]
		case text[0] == '}':
			return nil, fmt.Errorf("%q has no { before it: for a brace write }}", text)
		case text[0] == '{':
			inside, rest, ok := strings.Cut(text[1:], "}")
			if !ok {
				return nil, fmt.Errorf("%q has no } behind it: for a brace write {{", text)
			}
			p, err := parsePlaceholder(inside)
			if err != nil {
				return nil, err
			}
			if literal != "" {
				w, literal = append(w, part{text: literal}), ""
			}
			w, text = append(w, part{value: p}), rest
		default:
			n := strings.IndexAny(text, "{}")
			if n < 0 {
				n = len(text)
			}
			literal, text = literal+text[:n], text[n:]
		}
	}
	if literal != "" || len(w) == 0 {
		w = append(w, part{text: literal})
	}
	return w, nil
}

// parsePlaceholder parses what is between the braces.
func parsePlaceholder(inside string) (*placeholder, error) {
	p := &placeholder{text: "{" + inside + "}"}
	switch inside {
	case "#":
		p.of = itemNumber
		return p, nil
	case "%":
		p.of = slotNumber
		return p, nil
	}
	name := inside
	for _, ending := range []form{baseNoExt, directory, baseName, withoutExt} {
		if rest, ok := strings.CutSuffix(inside, string(ending)); ok {
			name, p.form = rest, ending
			break
		}
	}
	if name == "" {
		return p, nil
	}
	if n, err := strconv.Atoi(name); err == nil && (name[0] == '-' || unicode.IsDigit(rune(name[0]))) {
		if n == 0 {
			return nil, fmt.Errorf("%s: columns are counted from 1, or from the end: {-1} is the last one", p.text)
		}
		p.of, p.column = itemColumn, n
		return p, nil
	}
	p.of, p.field = itemField, strings.Split(name, ".")
	for _, step := range p.field {
		if step == "" || strings.TrimSpace(step) != step || strings.ContainsFunc(step, func(c rune) bool { return !inName(c) }) {
			return nil, fmt.Errorf("there is no placeholder %s: there are %s; for braces write {{ and }}", p.text, placeholders)
		}
	}
	return p, nil
}

// inName reports whether a placeholder may have the character in the name of a field.
func inName(c rune) bool {
	return c != utf8.RuneError && (unicode.IsLetter(c) || unicode.IsMark(c) || unicode.IsDigit(c) || strings.ContainsRune("_-: @+", c))
}
