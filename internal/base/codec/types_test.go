package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"time"
)

// What handlers take and return, and what is rare in them.
type (
	record struct {
		ID     int    `json:"id"`
		Name   string `json:"name"`
		Amount int    `json:"amount"`
		Note   string `json:"note"`
	}
	numbers struct {
		I   int
		I8  int8
		I16 int16
		I32 int32
		I64 int64
		U   uint
		U8  uint8
		U16 uint16
		U32 uint32
		U64 uint64
		F32 float32
		F64 float64
		B   bool
		N   json.Number
		P   uintptr
	}
	quoted struct {
		I  int         `json:"i,string"`
		U  uint8       `json:"u,string"`
		F  float64     `json:"f,string"`
		B  bool        `json:"b,string"`
		S  string      `json:"s,string"`
		P  *int        `json:"p,string"`
		N  json.Number `json:"n,string"`
		SP *string     `json:"sp,string"`
	}
	omitted struct {
		I  int            `json:"i,omitempty"`
		S  string         `json:"s,omitempty"`
		F  float64        `json:"f,omitempty"`
		B  bool           `json:"b,omitempty"`
		P  *int           `json:"p,omitempty"`
		L  []int          `json:"l,omitempty"`
		M  map[string]int `json:"m,omitempty"`
		A  any            `json:"a,omitempty"`
		R  record         `json:"r,omitempty"`
		Y  [0]int         `json:"y,omitempty"`
		Z  int            `json:"z,omitzero"`
		ZL []int          `json:"zl,omitzero"`
		ZR record         `json:"zr,omitzero"`
		ZT time.Time      `json:"zt,omitzero"`
		ZM zeroer         `json:"zm,omitzero"`
	}
	zeroer struct{ V int }
	base   struct {
		ID    int
		Label string `json:"label"`
		Twice string
	}
	Other struct {
		Twice string
		More  []string
	}
	Deep  struct{ Inner }
	Inner struct {
		X     int    `json:"x"`
		Label string `json:"label"`
	}
	embedding struct {
		base
		*Other
		Deep
		Named record `json:"named"`
		Note  string
	}
	raw struct {
		A json.RawMessage            `json:"a"`
		P *json.RawMessage           `json:"p"`
		L []json.RawMessage          `json:"l"`
		M map[string]json.RawMessage `json:"m"`
	}
	folded struct {
		Name        string `json:"name"`
		NAME        string
		Kelvin      int `json:"kelvin"`
		Series      int `json:"series"`
		Under_score int
		Umlaut      int `json:"äöü"`
	}
	pointers struct {
		I    *int
		S    *string
		R    *record
		PP   **int
		L    []*int
		M    map[string]*record
		Self *pointers
	}
	containers struct {
		L  []int
		S  []string
		N  [][]float64
		B  []byte
		A  [3]int
		BA [4]byte
		M  map[string]string
		MI map[int]string
		MU map[uint8]bool
		ML map[string][]int
		R  []record
		MR map[string]record
		E  struct{}
	}
	times struct {
		T time.Time
		P *time.Time
		D time.Duration
		L []time.Time
	}
	anys struct {
		A any
		L []any
		M map[string]any
		P *any
	}
	tags struct {
		Skip  int `json:"-"`
		HTML  int `json:"<&>"`
		Long  int `json:"a-name-that-is-longer-than-sixty-four-bytes-because-some-names-are-very-long"`
		_     int
		Empty int `json:",omitempty"`
	}
	named struct {
		C celsius
		S status
		L list
		M dict
		F flag
	}
	celsius float64
	status  string
	list    []int
	dict    map[status]celsius
	flag    bool
	wide    struct {
		A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T, U, V, W, X, Y, Z                           int
		Aa, Bb, Cc, Dd, Ee, Ff, Gg, Hh, Ii, Jj, Kk, Ll, Mm, Nn, Oo, Pp, Qq, Rr, Ss, Tt, Uu, Vv, Ww, Xx, Yy, Zz string
		A1, B1, C1, D1, E1, F1, G1, H1, I1, J1, K1, L1, M1, N1, O1, P1, Q1, R1, S1, T1, U1, V1, W1, X1, Y1, Z1 float64
	}
	methods struct {
		V  valueMethods
		P  pointerMethods
		PP *pointerMethods
		T  textMethods
		MT map[textMethods]int
		L  []pointerMethods
		E  errs `json:",omitempty"`
	}
	usualTags struct {
		Skip   int `json:"-"`
		Long   int `json:"a-name-that-is-longer-than-sixty-four-bytes-because-some-names-are-very-long"`
		Umlaut int `json:"äöü,omitempty"`
		_      int
		Empty  int    `json:",omitempty"`
		Dotted string `json:"a.b_c-d"`
	}
	nested struct {
		One   record
		Two   *record
		Three struct {
			P **record
			L [][]*record
			M map[string][]map[int8]*record
			A [2]record
			O struct{ V []byte } `json:"o,omitzero"`
		}
	}
	promoted struct {
		valueMethods
		N int
	}
	omittedZero struct {
		I int     `json:"i,omitzero"`
		F float64 `json:"f,omitzero,omitempty"`
		Z zeroer  `json:"z,omitzero"`
	}
	ifaces struct {
		S interface{ String() string }
		E error
	}
	unsupported struct {
		A int
		C chan int `json:"c,omitempty"`
	}
)

func (z zeroer) IsZero() bool { return z.V == 7 }

type valueMethods struct{ B string }

func (v valueMethods) MarshalJSON() ([]byte, error)  { return json.Marshal(" <" + v.B + "> ") }
func (v *valueMethods) UnmarshalJSON(b []byte) error { v.B = string(b); return nil }

type pointerMethods struct{ B string }

func (v *pointerMethods) MarshalJSON() ([]byte, error) {
	return []byte(` { "b" : ` + quote(v.B) + ` } `), nil
}
func (v *pointerMethods) UnmarshalJSON(b []byte) error {
	if bytes.Contains(b, []byte("no")) {
		return errors.New("refused")
	}
	v.B = string(b)
	return nil
}

type textMethods struct{ S string }

func (v textMethods) MarshalText() ([]byte, error) { return []byte("t:" + v.S), nil }
func (v *textMethods) UnmarshalText(b []byte) error {
	s, ok := strings.CutPrefix(string(b), "t:")
	if !ok {
		return errors.New("no t:")
	}
	v.S = s
	return nil
}

type errs struct{ B string }

func (v errs) MarshalJSON() ([]byte, error) {
	if v.B == "" {
		return nil, errors.New("empty")
	}
	return []byte(v.B), nil
}

// invalidTags has tags that a linter would not let pass.
var invalidTags = reflect.StructOf([]reflect.StructField{
	{Name: "Quote", Type: reflect.TypeFor[int](), Tag: `json:"a\"b"`},
	{Name: "Dash", Type: reflect.TypeFor[int](), Tag: `json:"-,"`},
	{Name: "Strings", Type: reflect.TypeFor[[]int](), Tag: `json:"l,string"`},
	{Name: "Options", Type: reflect.TypeFor[int](), Tag: `json:"not,a,name"`},
	{Name: "Inline", Type: reflect.TypeFor[record](), Tag: `json:",inline"`},
	{Name: "Format", Type: reflect.TypeFor[time.Duration](), Tag: `json:",format:units"`},
})

// tested are the types that the tests compare; what is not plain of them is encoding/json's anyway.
var tested = []reflect.Type{
	reflect.TypeFor[record](), reflect.TypeFor[*record](), reflect.TypeFor[[]record](), reflect.TypeFor[map[string]record](),
	reflect.TypeFor[any](), reflect.TypeFor[map[string]any](), reflect.TypeFor[[]any](),
	reflect.TypeFor[string](), reflect.TypeFor[int](), reflect.TypeFor[float64](), reflect.TypeFor[bool](), reflect.TypeFor[[]byte](),
	reflect.TypeFor[json.RawMessage](), reflect.TypeFor[json.Number](), reflect.TypeFor[time.Time](),
	reflect.TypeFor[numbers](), reflect.TypeFor[quoted](), reflect.TypeFor[omitted](), reflect.TypeFor[embedding](), reflect.TypeFor[raw](),
	reflect.TypeFor[folded](), reflect.TypeFor[pointers](), reflect.TypeFor[containers](), reflect.TypeFor[times](), reflect.TypeFor[anys](),
	reflect.TypeFor[tags](), reflect.TypeFor[named](), reflect.TypeFor[wide](), reflect.TypeFor[methods](), reflect.TypeFor[ifaces](), reflect.TypeFor[unsupported](),
	reflect.TypeFor[map[string]string](), reflect.TypeFor[map[int]float64](), reflect.TypeFor[textMethods](), reflect.TypeFor[pointerMethods](), reflect.TypeFor[struct{}](),
	reflect.TypeFor[Other](), reflect.TypeFor[usualTags](), invalidTags, reflect.TypeFor[nested](), reflect.TypeFor[promoted](), reflect.TypeFor[omittedZero](),
}
