package codec

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
)

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
