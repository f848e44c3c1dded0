package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/base/text"
)

// MaxWord is the most bytes that a word of a command may have: Linux takes no more.
const MaxWord = 128<<10 - 1

// Item is what a template needs to know of an item.
type Item struct {
	// Data is a line of text, or a value in JSON.
	Data []byte
	// JSON means that Data is a value in JSON: an object has fields, a list columns.
	JSON bool
	// Delimiter separates the columns of text; "": it has none.
	Delimiter string
	// Columns means that an item which is a list in JSON stands for its values, with a space between them.
	Columns bool
	Number  int64 // from 1
	Slot    int   // from 1
	// Out is the value of {out}; "": that is a field like any other.
	Out string
}

// Text returns the value of {}: text as it is, a string in JSON without its quotes, any other JSON without white space.
func (i *Item) Text() (string, error) { return (&rendering{item: i}).whole() }

// ValueError reports that an item has no command: a value is missing, or cannot be a word.
type ValueError struct {
	Placeholder string
	Reason      string
}

func (e *ValueError) Error() string { return fmt.Sprintf("%s: %s", e.Placeholder, e.Reason) }

// Words returns the command of an item. The error is a *ValueError.
func (t *Template) Words(item *Item) ([]string, error) {
	r := &rendering{item: item}
	words := make([]string, len(t.words))
	var b strings.Builder
	for i, w := range t.words {
		if len(w) == 1 && w[0].value == nil {
			words[i] = w[0].text
			continue
		}
		b.Reset()
		for _, p := range w {
			text := p.text
			if p.value != nil {
				var err error
				if text, err = r.word(p.value); err != nil {
					return nil, &ValueError{p.value.text, err.Error()}
				}
			}
			b.WriteString(text)
			if b.Len() > MaxWord {
				return nil, &ValueError{placeholderOf(w), fmt.Sprintf(
					"the word has more than %d bytes, which a command cannot have: give the item on standard input (--stdin item)", MaxWord)}
			}
		}
		words[i] = b.String()
	}
	return words, nil
}

// WordsAndFile returns the command of an item that makes a file, and its name, which the template file gives; nil: it
// makes none. out returns what {out} is for a file. The error is a *ValueError.
func (t *Template) WordsAndFile(item *Item, file *Template, out func(name string) string) (words []string, name string, err error) {
	if file != nil {
		names, err := file.Words(item)
		if err != nil {
			return nil, "", err
		}
		name = names[0]
		item.Out = out(name)
	}
	words, err = t.Words(item)
	return words, name, err
}

// placeholderOf returns the first placeholder of a word.
func placeholderOf(w word) string {
	i := slices.IndexFunc(w, func(p part) bool { return p.value != nil })
	return w[i].value.text
}

// rendering makes the words of one item.
type rendering struct {
	item    *Item
	columns []string // nil: not known yet
}

// word returns a value that can be in a word.
func (r *rendering) word(p *placeholder) (string, error) {
	text, err := r.value(p)
	if err != nil {
		return "", err
	}
	if at := strings.IndexByte(text, 0); at >= 0 {
		return "", fmt.Errorf("a word of a command cannot have a NUL byte, as this one at byte %d", at)
	}
	return text, nil
}

func (r *rendering) value(p *placeholder) (text string, err error) {
	switch p.of {
	case wholeItem:
		text, err = r.whole()
	case itemNumber:
		return strconv.FormatInt(r.item.Number, 10), nil
	case slotNumber:
		return strconv.Itoa(r.item.Slot), nil
	case itemColumn:
		text, err = r.column(p.column)
	case itemField:
		text, err = r.field(p.field)
	}
	if err != nil {
		return "", err
	}
	return p.form.of(text), nil
}

// whole is [Item.Text].
func (r *rendering) whole() (string, error) {
	data := bytes.TrimSpace(r.item.Data)
	switch {
	case !r.item.JSON:
		return string(r.item.Data), nil
	case len(data) > 0 && data[0] == '"':
		return plain(data)
	case r.item.Columns && len(data) > 0 && data[0] == '[':
		columns, err := r.split()
		return strings.Join(columns, " "), err
	}
	return compact(data)
}

func compact(data []byte) (string, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, data); err != nil {
		return "", err
	}
	return b.String(), nil
}

// column returns a column of text, which may be a string in JSON, or of a list.
func (r *rendering) column(n int) (string, error) {
	if r.columns == nil {
		columns, err := r.split()
		if err != nil {
			return "", err
		}
		r.columns = columns
	}
	at := n - 1
	if n < 0 {
		at = len(r.columns) + n
	}
	if at < 0 || at >= len(r.columns) {
		return "", fmt.Errorf("the item has only %d columns", len(r.columns))
	}
	return r.columns[at], nil
}

func (r *rendering) split() ([]string, error) {
	text, isText := string(r.item.Data), !r.item.JSON
	if data := bytes.TrimSpace(r.item.Data); !isText && len(data) > 0 && data[0] == '"' {
		var err error
		if text, err = plain(data); err != nil {
			return nil, err
		}
		isText = true
	}
	switch {
	case isText && r.item.Delimiter == "":
		return []string{text}, nil
	case isText:
		return strings.Split(text, r.item.Delimiter), nil
	}
	var list []json.RawMessage
	if json.Unmarshal(r.item.Data, &list) != nil {
		return nil, errors.New("the item is no list, and has no columns")
	}
	columns := make([]string, len(list))
	for i, value := range list {
		var err error
		if columns[i], err = plain(value); err != nil {
			return nil, fmt.Errorf("column %d: %w", i+1, err)
		}
	}
	return columns, nil
}

// element returns a column of a list in JSON.
func (r *rendering) element(n int) (json.RawMessage, error) {
	var list []json.RawMessage
	if json.Unmarshal(r.item.Data, &list) != nil {
		return nil, errors.New("the item is no list, and has no columns")
	}
	if n < 0 {
		n += len(list) + 1
	}
	if n < 1 || n > len(list) {
		return nil, fmt.Errorf("the item has only %d columns", len(list))
	}
	return list[n-1], nil
}

// field returns the value at a path of an object as a word.
func (r *rendering) field(steps []string) (string, error) {
	if r.item.Out != "" && len(steps) == 1 && steps[0] == outName {
		return r.item.Out, nil
	}
	value, err := r.raw(steps)
	if err != nil {
		return "", err
	}
	return plain(value)
}

// raw returns the value at a path of an object. A field whose name is the whole path comes first.
func (r *rendering) raw(steps []string) (json.RawMessage, error) {
	if !r.item.JSON {
		return nil, errors.New("a line of text has no fields")
	}
	at := json.RawMessage(r.item.Data)
	for i := range steps {
		inside, err := within(at, steps[i])
		if err != nil && i == 0 && len(steps) > 1 {
			if whole, err := within(at, strings.Join(steps, ".")); err == nil {
				return whole, nil
			}
		}
		if err != nil {
			return nil, err
		}
		at = inside
	}
	return at, nil
}

// within returns a field of an object, or an element of a list, which is counted from 0.
func within(value json.RawMessage, name string) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(value, &fields) == nil && fields != nil {
		if inside, ok := fields[name]; ok {
			return inside, nil
		}
		return nil, fmt.Errorf("the item has no field %q", name)
	}
	var list []json.RawMessage
	if n, err := strconv.Atoi(name); err == nil && json.Unmarshal(value, &list) == nil && n >= 0 && n < len(list) {
		return list[n], nil
	}
	return nil, fmt.Errorf("there is no field %q in what is no object", name)
}

// outName is the name of the field in whose place the item's output file stands, if it has one.
const outName = "out"

// quote returns a text as a string in JSON.
func quote(s string) (json.RawMessage, error) {
	if !utf8.ValidString(s) {
		return nil, errors.New("the value is not UTF-8, and cannot be in JSON")
	}
	return text.JSON(s)
}

// plain returns a value as a word: a string without its quotes, anything else as JSON.
func plain(value json.RawMessage) (string, error) {
	switch {
	case string(value) == "null":
		return "", errors.New("the value is null")
	case len(value) > 0 && value[0] == '"':
		var text string
		err := json.Unmarshal(value, &text)
		return text, err
	}
	return compact(value)
}

// of returns a value in this form, as GNU parallel makes it of file names.
func (f form) of(name string) string {
	switch f {
	case withoutExt:
		return cutExt(name)
	case baseName:
		return base(name)
	case baseNoExt:
		return cutExt(base(name))
	case directory:
		return dirName(name)
	}
	return name
}

func base(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// cutExt removes what follows the last dot of the base name, and the dot.
func cutExt(name string) string {
	if dot := strings.LastIndexByte(name, '.'); dot > strings.LastIndexByte(name, '/') {
		return name[:dot]
	}
	return name
}

// dirName is that of POSIX.
func dirName(name string) string {
	trimmed := strings.TrimRight(name, "/")
	if trimmed == "" && name != "" {
		return "/"
	}
	at := strings.LastIndexByte(trimmed, '/')
	if at < 0 {
		return "."
	}
	if dir := strings.TrimRight(trimmed[:at], "/"); dir != "" {
		return dir
	}
	return "/"
}
