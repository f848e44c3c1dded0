package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/base/text"
)

// ColumnError reports a column whose text is not a value of the type that it is decoded into.
type ColumnError struct {
	Column string
	Text   string
	Want   string // what it should be: "an integer"
}

// maxShown is how many bytes of a text an error shows.
const maxShown = 80

// Error names column and text.
func (e *ColumnError) Error() string {
	shown := text.Cut(e.Text, maxShown)
	return fmt.Sprintf("column %q: %q is not %s", e.Column, shown, e.Want)
}

// ForRecords returns a codec that decodes records of CSV, objects of strings, into values of type t: c if t has no
// fields of other types. A text becomes what its field wants: an integer, a number, true or false (as in
// [strconv.ParseBool]), a [time.Time] (RFC 3339, or a date, which is midnight UTC), or JSON for a struct, map, slice or
// array; white space around it does not count. An empty text is the zero value, and nil for a pointer. Types with
// methods of their own for JSON or text, and fields with the option ",string", get the text. Fields are found as
// encoding/json finds them. The error is a *ColumnError, or that of c.
func ForRecords(t reflect.Type, c Codec) Codec {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || known[t] || hasMethods(t) {
		return c
	}
	columns := columnsOf(t)
	if len(columns) == 0 {
		return c
	}
	return &forRecords{Codec: c, columns: columns}
}

type forRecords struct {
	Codec
	columns []column
}

// column is a field.
type column struct {
	name    string
	convert convert // the zero value: the field takes the text
}

// convert appends the JSON value of a text that is not empty and has no white space around it. It returns false if the
// type has no such value.
type convert struct {
	want   string
	append func(dst []byte, text string) ([]byte, bool)
	// orNil, without append, takes the text, but nothing if it is empty.
	orNil bool
}

// Unmarshal decodes a record.
func (f *forRecords) Unmarshal(data []byte, v any) error {
	typed, err := f.typed(data)
	if err != nil {
		return err
	}
	return f.Codec.Unmarshal(typed, v)
}

// typed returns the record with values in place of texts. What is not a record it returns as it is.
func (f *forRecords) typed(data []byte) ([]byte, error) {
	typed := make([]byte, 0, len(data)+16)
	next := 0 // of data, not yet copied
	for s := (stringsOf{data: data, at: 1}); ; {
		name, value, ok := s.next()
		if !ok {
			return append(typed, data[next:]...), nil
		}
		c := f.find(name)
		if c == nil {
			continue
		}
		var text string
		if err := json.Unmarshal(data[value.from:value.to], &text); err != nil {
			return data, nil
		}
		typed = append(typed, data[next:value.from]...)
		next = value.to
		trimmed := strings.TrimSpace(text)
		switch {
		case text == "" || trimmed == "" && c.convert.append != nil:
			typed = append(typed, "null"...)
			continue
		case c.convert.append == nil:
			typed = append(typed, data[value.from:value.to]...)
			continue
		}
		if typed, ok = c.convert.append(typed, trimmed); !ok {
			return nil, &ColumnError{Column: name, Text: text, Want: c.convert.want}
		}
	}
}

// find returns the column that encoding/json would find: of the same name, or else of the same but for case.
func (f *forRecords) find(name string) *column {
	var folded *column
	for i := range f.columns {
		c := &f.columns[i]
		if c.name == name {
			return c.ifConverted()
		}
		if folded == nil && strings.EqualFold(c.name, name) {
			folded = c
		}
	}
	return folded.ifConverted()
}

// ifConverted returns nil for a column that takes its text as it is.
func (c *column) ifConverted() *column {
	if c == nil || !c.convert.any() {
		return nil
	}
	return c
}

// any reports whether the field does not simply take the text.
func (c *convert) any() bool { return c.append != nil || c.orNil }

// stringsOf reads an object of strings, as package records writes it: without white space.
type stringsOf struct {
	data []byte
	at   int
}

// span is a range of bytes.
type span struct{ from, to int }

func (s *stringsOf) next() (name string, value span, ok bool) {
	key, ok := s.string(',')
	if !ok {
		return "", value, false
	}
	if value, ok = s.string(':'); !ok {
		return "", value, false
	}
	raw := s.data[key.from:key.to]
	if bytes.IndexByte(raw, '\\') < 0 { // no escape
		return string(raw[1 : len(raw)-1]), value, true
	}
	return name, value, json.Unmarshal(raw, &name) == nil
}

// string passes over a string, and before it over the byte that separates it from what was before.
func (s *stringsOf) string(separator byte) (span, bool) {
	if s.at < len(s.data) && s.data[s.at] == separator {
		s.at++
	}
	from := s.at
	if from >= len(s.data) || s.data[from] != '"' {
		return span{}, false
	}
	for i := from + 1; i < len(s.data); i++ {
		switch s.data[i] {
		case '\\':
			i++
		case '"':
			s.at = i + 1
			return span{from, i + 1}, true
		}
	}
	return span{}, false
}

// columnsOf returns the fields of a struct by their names in JSON, if any of them wants something else than its text.
func columnsOf(t reflect.Type) []column {
	var columns []column
	converts := false
	for _, f := range fieldsOf(t) {
		c := column{name: f.name}
		if !f.asText {
			c.convert = conversion(f.typ)
		}
		converts = converts || c.convert.any()
		columns = append(columns, c)
	}
	if !converts {
		return nil
	}
	return columns
}

// conversion returns how a text becomes a value of type t; the zero value if t takes the text.
func conversion(t reflect.Type) convert {
	pointer := t.Kind() == reflect.Pointer
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	asText := convert{orNil: pointer}
	switch {
	case t == reflect.TypeFor[time.Time]():
		return convert{want: "a date or time: write 2006-01-02 or 2006-01-02T15:04:05Z", append: appendTime}
	case t == reflect.TypeFor[json.Number]():
		return convert{want: "a number", append: appendNumber}
	case known[t] || hasMethods(t):
		return asText
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return integer(t.Bits())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return unsigned(t.Bits())
	case reflect.Float32, reflect.Float64:
		return float(t.Bits())
	case reflect.Bool:
		return convert{want: "true or false", append: appendBool}
	case reflect.Struct, reflect.Map, reflect.Array:
		return convert{want: "JSON", append: appendJSON}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return asText // base64, as in JSON
		}
		return convert{want: "JSON", append: appendJSON}
	}
	return asText
}

func integer(bits int) convert {
	return convert{want: fmt.Sprintf("an integer of %d bits", bits), append: func(dst []byte, s string) ([]byte, bool) {
		n, err := strconv.ParseInt(s, 10, bits)
		return strconv.AppendInt(dst, n, 10), err == nil
	}}
}

func unsigned(bits int) convert {
	return convert{want: fmt.Sprintf("an integer of %d bits without a sign", bits), append: func(dst []byte, s string) ([]byte, bool) {
		n, err := strconv.ParseUint(s, 10, bits)
		return strconv.AppendUint(dst, n, 10), err == nil
	}}
}

func float(bits int) convert {
	return convert{want: "a number", append: func(dst []byte, s string) ([]byte, bool) {
		n, err := strconv.ParseFloat(s, bits)
		if err != nil || n-n != 0 { // JSON has neither infinity nor NaN
			return dst, false
		}
		return strconv.AppendFloat(dst, n, 'g', -1, bits), true
	}}
}

func appendNumber(dst []byte, s string) ([]byte, bool) {
	var n json.Number
	if json.Unmarshal([]byte(s), &n) != nil || s[0] == '"' || s == "null" {
		return dst, false
	}
	return append(dst, s...), true
}

func appendBool(dst []byte, s string) ([]byte, bool) {
	b, err := strconv.ParseBool(s)
	return strconv.AppendBool(dst, b), err == nil
}

func appendTime(dst []byte, s string) ([]byte, bool) {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t, err = time.Parse(time.DateOnly, s)
	}
	if err != nil {
		return dst, false
	}
	value, err := t.MarshalJSON()
	return append(dst, value...), err == nil
}

func appendJSON(dst []byte, s string) ([]byte, bool) {
	return append(dst, s...), json.Valid([]byte(s))
}

// field is a field of a struct as encoding/json sees it.
type field struct {
	name   string
	typ    reflect.Type
	asText bool // it has the option ",string": encoding/json decodes it from a text
	tagged bool // the tag names it
	depth  int  // of embedding
}

// fieldsOf returns the fields of a struct, and of those embedded in it, by the rules of encoding/json: of several with
// one name the one that is embedded least deep counts, among those the only one that a tag names, and otherwise none.
func fieldsOf(t reflect.Type) []field {
	var all []field
	gather(t, 0, nil, &all)
	var fields []field
	for i, f := range all {
		if dominates(f, i, all) {
			fields = append(fields, f)
		}
	}
	return fields
}

// gather adds the fields of a struct at a depth. within are the structs that it is embedded in.
func gather(t reflect.Type, depth int, within []reflect.Type, all *[]field) {
	if slices.Contains(within, t) {
		return
	}
	within = append(slices.Clip(within), t)
	for f := range t.Fields() {
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		embedded := f.Type
		if embedded.Kind() == reflect.Pointer {
			embedded = embedded.Elem()
		}
		switch {
		case tag == "-" || !f.IsExported() && !(f.Anonymous && embedded.Kind() == reflect.Struct):
			continue
		case f.Anonymous && name == "" && embedded.Kind() == reflect.Struct:
			gather(embedded, depth+1, within, all)
			continue
		}
		asText := slices.Contains(strings.Split(options, ","), "string")
		named := field{name: name, typ: f.Type, asText: asText, tagged: name != "", depth: depth}
		if name == "" {
			named.name = f.Name
		}
		*all = append(*all, named)
	}
}

// dominates reports whether the field at an index is the one of its name that counts.
func dominates(f field, index int, all []field) bool {
	for i, o := range all {
		if i == index || o.name != f.name {
			continue
		}
		if o.depth < f.depth || o.depth == f.depth && (o.tagged || !f.tagged) {
			return false
		}
	}
	return true
}
