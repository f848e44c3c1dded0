// Package codec decodes items into Go values and encodes results as JSON, as encoding/json does and
// several times as fast where that is safe.
//
// The fast codec is github.com/goccy/go-json. Only its yes is trusted: what it refuses encoding/json
// decodes or encodes again, from the beginning, so every error is that of encoding/json. It gets only
// types for which the two agree, which reflection decides once for each type: no methods of their own
// for JSON or text, nothing recursive, usual tags (see plain.go). The fuzz tests compare the two.
package codec

import (
	"encoding/json"
	"io"
	"reflect"

	fastjson "github.com/goccy/go-json"
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
	// Clean reports whether all that it writes is valid UTF-8 and nested as deep as the type of the values, whatever they hold.
	// False: it may be, and is not known to be.
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
		return fast{clean: !types.raw}
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

// fast is clean for types whose values the encoder writes all itself.
type fast struct{ clean bool }

func (fast) Unmarshal(data []byte, v any) error {
	if fastjson.Unmarshal(data, v) == nil {
		return nil
	}
	reflect.ValueOf(v).Elem().SetZero() // it may be filled in part
	return json.Unmarshal(data, v)
}

func (f fast) NewEncoder(w io.Writer) Encoder {
	e := fastjson.NewEncoder(w)
	e.SetEscapeHTML(false)
	return &fastEncoder{fast: e, standard: Standard.NewEncoder(w), clean: f.clean}
}

type fastEncoder struct {
	fast     *fastjson.Encoder
	standard Encoder
	clean    bool
}

func (e *fastEncoder) Clean() bool { return e.clean }

func (e *fastEncoder) Encode(v any) error {
	if e.fast.Encode(v) == nil {
		return nil
	}
	return e.standard.Encode(v)
}
