// Package codec decodes items into Go values and encodes results as JSON, as encoding/json does and
// several times as fast where that is safe.
//
// The fast codec is github.com/goccy/go-json. Only its yes is trusted: what it refuses encoding/json
// decodes or encodes again, from the beginning, so every error is that of encoding/json. It gets only
// types for which the two agree, which reflection decides once for each type: no methods of their own
// for JSON or text, nothing recursive, usual tags (see types). The fuzz tests compare the two.
//
// A program without Go handlers has no use for it: built with the tag nofastjson it does not link it.
package codec

import (
	"encoding/json"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Codec decodes and encodes JSON. It is comparable, and safe for concurrent use.
type Codec interface {
	// Unmarshal decodes data, one JSON value, into v, a pointer to a zero value. Its errors are those of
	// encoding/json. v keeps nothing of data.
	Unmarshal(data []byte, v any) error
	// NewEncoder returns an encoder that writes to w.
	NewEncoder(w io.Writer) Encoder
}

// Encoder writes values as JSON. One goroutine may use it.
type Encoder interface {
	// Encode writes v and '\n' in one Write. Nothing is escaped for HTML. Its errors are those of
	// encoding/json, and of the writer; a Write that fails may be repeated.
	Encode(v any) error
	// Clean reports whether all that it writes is valid UTF-8 and nested as deep as the type of the values, whatever
	// they hold. False: it may be, and is not known to be.
	Clean() bool
}

// Standard is encoding/json.
var Standard Codec = standard{}

// ForDecoding returns the fastest codec that decodes values of type t as encoding/json does.
func ForDecoding(t reflect.Type) Codec { return choose(t, true) }

// ForEncoding returns the fastest codec that encodes values of type t as encoding/json does.
func ForEncoding(t reflect.Type) Codec { return choose(t, false) }

func choose(t reflect.Type, decoding bool) Codec {
	types := types{decoding: decoding}
	if types.plain(t) {
		return fastest(!types.raw)
	}
	return Standard
}

type standard struct{}

func (standard) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

func (standard) NewEncoder(w io.Writer) Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return standardEncoder{e}
}

type standardEncoder struct{ *json.Encoder }

func (standardEncoder) Clean() bool { return false } // methods of values may write anything

// types looks for what is left to encoding/json.
type types struct {
	decoding bool
	within   []reflect.Type // those that are being looked at
	raw      bool           // values may hold JSON, which is written as it is
}

// Types with methods of their own, of which the fuzz tests have found no difference.
var known = map[reflect.Type]bool{
	reflect.TypeFor[time.Time](): true, reflect.TypeFor[json.RawMessage](): true, reflect.TypeFor[json.Number](): true,
}

// plain reports whether the fast codec may have values of type t.
func (s *types) plain(t reflect.Type) bool {
	if known[t] {
		s.raw = s.raw || t != reflect.TypeFor[time.Time]()
		return true
	}
	if hasMethods(t) || slices.Contains(s.within, t) { // a recursive value may be of any depth
		return false
	}
	s.within = append(s.within, t)
	defer func() { s.within = s.within[:len(s.within)-1] }()
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return true
	case reflect.Interface:
		return s.decoding && t.NumMethod() == 0 // to be encoded it may hold anything
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return s.plain(t.Elem())
	case reflect.Map:
		return plainKey(t.Key()) && s.plain(t.Elem())
	case reflect.Struct:
		for field := range t.Fields() {
			if !s.plainField(field) {
				return false
			}
		}
		return true
	}
	return false
}

func plainKey(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return !hasMethods(t)
	}
	return false
}

func (s *types) plainField(f reflect.StructField) bool {
	tag := f.Tag.Get("json")
	if tag == "-" || !f.IsExported() && !f.Anonymous {
		return true
	}
	name, options, _ := strings.Cut(tag, ",")
	for _, c := range name {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("_-.", c) {
			return false
		}
	}
	if tag != name {
		for option := range strings.SplitSeq(options, ",") {
			switch option {
			case "omitempty":
			case "omitzero":
				if _, own := reflect.PointerTo(f.Type).MethodByName("IsZero"); own && !known[f.Type] {
					return false
				}
			default: // in "string" go-json takes numbers like "+0"
				return false
			}
		}
	}
	return s.plain(f.Type)
}

// hasMethods reports whether t or *t has a method by which a codec may have a value encode or decode
// itself. The names are constants, or the linker would keep all methods of the program.
func hasMethods(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	_, a := p.MethodByName("MarshalJSON")
	_, b := p.MethodByName("UnmarshalJSON")
	_, c := p.MethodByName("MarshalText")
	_, d := p.MethodByName("UnmarshalText")
	_, e := p.MethodByName("AppendText")
	_, f := p.MethodByName("MarshalJSONTo")
	_, g := p.MethodByName("UnmarshalJSONFrom")
	return a || b || c || d || e || f || g
}
