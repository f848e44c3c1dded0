//go:build !nofastjson

package codec

import (
	"encoding/json"
	"io"
	"reflect"

	fastjson "github.com/goccy/go-json"
)

// fastest returns the codec for types for which the two agree.
func fastest(clean bool) Codec { return fast{clean} }

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
