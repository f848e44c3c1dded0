package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	fastjson "github.com/goccy/go-json"
	"github.com/stretchr/testify/require"
)

// Which types the fast codec gets. The others are left to encoding/json, each for the reason given.
func TestFor(t *testing.T) {
	t.Parallel()
	neither := map[string]reflect.Type{
		"methods for JSON":        reflect.TypeFor[methods](),
		"methods for text":        reflect.TypeFor[textMethods](),
		"methods of the pointer":  reflect.TypeFor[[]pointerMethods](),
		"promoted methods":        reflect.TypeFor[promoted](),
		"a map's key has methods": reflect.TypeFor[map[textMethods]int](),
		"recursive":               reflect.TypeFor[pointers](),
		"a channel":               reflect.TypeFor[unsupported](),
		"interfaces":              reflect.TypeFor[ifaces](),
		"numbers in strings":      reflect.TypeFor[quoted](),
		"unusual tags":            reflect.TypeFor[tags](),
		"invalid tags":            invalidTags,
		"a zero of its own":       reflect.TypeFor[omittedZero](),
	}
	for why, typ := range neither {
		require.Equal(t, Standard, ForDecoding(typ), why)
		require.Equal(t, Standard, ForEncoding(typ), why)
	}
	for _, typ := range []reflect.Type{
		reflect.TypeFor[record](), reflect.TypeFor[*record](), reflect.TypeFor[[]map[string]record](), reflect.TypeFor[string](), reflect.TypeFor[[]byte](),
		reflect.TypeFor[embedding](), reflect.TypeFor[folded](), reflect.TypeFor[usualTags](), reflect.TypeFor[nested](),
		reflect.TypeFor[time.Time](), reflect.TypeFor[raw](), reflect.TypeFor[struct{ N json.Number }](), reflect.TypeFor[map[int8]bool](),
	} {
		require.IsType(t, fast{}, ForDecoding(typ), typ)
		require.IsType(t, fast{}, ForEncoding(typ), typ)
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[any](), reflect.TypeFor[map[string]any](), reflect.TypeFor[anys]()} {
		require.IsType(t, fast{}, ForDecoding(typ), typ)
		require.Equal(t, Standard, ForEncoding(typ), "what is in it may have methods")
	}
}

// What the fast codec refuses is decoded from the beginning: nothing of its attempt is left, and the
// error is that of encoding/json.
func TestUnmarshal_AfterARefusal(t *testing.T) {
	t.Parallel()
	doc := []byte(`{"n":"null","f":"474","p":"606"}`)
	var want, got quoted
	require.Error(t, fastjson.Unmarshal(doc, &got), "choose another document: the fast codec takes this one")
	got = quoted{}
	require.NoError(t, json.Unmarshal(doc, &want))
	require.NoError(t, fast{}.Unmarshal(doc, &got))
	require.Equal(t, want, got)

	var r record
	err := fast{}.Unmarshal([]byte(`{"id":1,"name":"a","id":"b"} x`), &r)
	var syntax *json.SyntaxError
	require.ErrorAs(t, err, &syntax)
	require.Equal(t, int64(30), syntax.Offset)
	require.Zero(t, r, "encoding/json checks before it decodes")
}

// A value comes in one Write, and one that cannot be encoded leaves nothing.
func TestEncode_OneWrite(t *testing.T) {
	t.Parallel()
	for _, c := range []Codec{fast{}, Standard} {
		var w writes
		e := c.NewEncoder(&w)
		require.NoError(t, e.Encode(record{ID: 1, Name: "<&>\u2028"}))
		require.Equal(t, writes{`{"id":1,"name":"<&>\u2028","amount":0,"note":""}` + "\n"}, w)
		var unsupported *json.UnsupportedValueError
		require.ErrorAs(t, e.Encode([]float64{1, math.Inf(1)}), &unsupported)
		require.Len(t, w, 1)
	}
}

type writes []string

func (w *writes) Write(b []byte) (int, error) {
	*w = append(*w, string(b))
	return len(b), nil
}

// The error of the writer is passed on.
func TestEncode_WriterFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	require.ErrorIs(t, fast{}.NewEncoder(failing{broken}).Encode(1), broken)
}

type failing struct{ err error }

func (w failing) Write([]byte) (int, error) { return 0, w.err }

// The record of package bench, as its bare loop decodes and encodes it, and as Go handlers do.
func BenchmarkRecord(b *testing.B) {
	line := []byte(`{"id":123456,"name":"customer 123456","amount":192,"note":"some text here some text here some t"}`)
	for name, c := range map[string]Codec{"encoding-json": Standard, "chosen": ForDecoding(reflect.TypeFor[record]())} {
		var buf bytes.Buffer
		e := c.NewEncoder(&buf)
		both := func(decode, encode bool) func(*testing.B) {
			return func(b *testing.B) {
				r := record{123456, "customer 123456", 192, "some text here some text here some t"}
				b.ReportAllocs()
				for b.Loop() {
					buf.Reset()
					if decode {
						r = record{}
						require.NoError(b, c.Unmarshal(line, &r))
					}
					if encode {
						require.NoError(b, e.Encode(r))
					}
				}
			}
		}
		b.Run(name+"/decode", both(true, false))
		b.Run(name+"/encode", both(false, true))
		b.Run(name+"/both", both(true, true))
	}
}
