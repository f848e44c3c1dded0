package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	decoded = plainOf(ForDecoding)
	encoded = plainOf(ForEncoding)
)

// plainOf are the tested types that the fast codec gets.
func plainOf(choose func(reflect.Type) Codec) (plain []reflect.Type) {
	for _, t := range tested {
		if choose(t) == (fast{}) {
			plain = append(plain, t)
		}
	}
	return plain
}

// Whatever the bytes and whatever the document for one of the types, both decode the same value or
// return the same error.
func FuzzDecode(f *testing.F) {
	for i, typ := range decoded {
		d := newDocuments(uint64(i))
		f.Add(d.document(typ), uint64(i))
	}
	for _, doc := range []string{
		``, ` `, `nul`, `{`, `[1,]`, `{"a":1,}`, `"\ud800"`, "\"\xff\"", `1e400`, `{"id":1}x`, `{"ID":1,"iD":2}`, "\x00", `"\u212a"`,
		strings.Repeat("[", 64) + strings.Repeat("]", 64), `{"id":` + strings.Repeat("1", 40) + `}`, `{"ſeries":1,"\u212aelvin":2}`, `"abc`, `"abc\`, `{"\u0000d\`,
	} {
		f.Add([]byte(doc), uint64(len(doc)))
	}
	f.Fuzz(func(t *testing.T, doc []byte, seed uint64) {
		for _, typ := range tested {
			compareDecoding(t, typ, doc)
		}
		typ := decoded[seed%uint64(len(decoded))]
		compareDecoding(t, typ, newDocuments(seed).document(typ))
	})
}

// compareDecoding reports whether doc fits the type.
func compareDecoding(t *testing.T, typ reflect.Type, doc []byte) bool {
	t.Helper()
	want, got := reflect.New(typ), reflect.New(typ)
	wantErr := json.Unmarshal(bytes.Clone(doc), want.Interface())
	given := bytes.Clone(doc)
	gotErr := ForDecoding(typ).Unmarshal(given, got.Interface())
	for i := range given {
		given[i] = '#' // it is the caller's again
	}
	require.Equal(t, wantErr, gotErr, "%v: %q", typ, doc)
	if wantErr != nil {
		return false
	}
	if !reflect.DeepEqual(want.Interface(), got.Interface()) || encode(want) != encode(got) {
		t.Fatalf("%v: %q decodes to\n%s, encoding/json has\n%s", typ, doc, encode(got), encode(want))
	}
	return true
}

// encode is what encoding/json makes of a decoded value: it distinguishes 0 from -0. An invalid
// json.Number, which encoding/json accepts in a string, is an error.
func encode(v reflect.Value) string {
	b, err := json.Marshal(v.Interface())
	return fmt.Sprint(string(b), err)
}

// Whatever the value of one of the types, both encode it to the same bytes or return the same error.
func FuzzEncode(f *testing.F) {
	for i := range encoded {
		f.Add(newDocuments(uint64(i)).bytes(), uint64(i))
	}
	f.Fuzz(func(t *testing.T, data []byte, n uint64) {
		compareEncoding(t, encoded[n%uint64(len(encoded))], data)
		compareEncoding(t, encoded[n/64%uint64(len(encoded))], newDocuments(n).bytes())
	})
}

func compareEncoding(t *testing.T, typ reflect.Type, data []byte) {
	t.Helper()
	v := reflect.New(typ).Elem()
	(&filler{data}).fill(v, 6)
	var want, got bytes.Buffer
	wantErr := Standard.NewEncoder(&want).Encode(v.Interface())
	gotErr := ForEncoding(typ).NewEncoder(&got).Encode(v.Interface())
	if (wantErr == nil) != (gotErr == nil) || wantErr != nil && wantErr.Error() != gotErr.Error() || want.String() != got.String() {
		t.Fatalf("%v encodes to\n%s%v, encoding/json has\n%s%v", typ, &got, gotErr, &want, wantErr)
	}
}

// Many documents and values; STINT_CODEC_DOCUMENTS=n says how many of each type.
func TestCodec_AgreesWithEncodingJSON(t *testing.T) {
	t.Parallel()
	n := 500
	if text := os.Getenv("STINT_CODEC_DOCUMENTS"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	d, ok := newDocuments(1), 0
	for range n {
		for _, typ := range decoded {
			if compareDecoding(t, typ, d.document(typ)) {
				ok++
			}
		}
		for _, typ := range encoded {
			compareEncoding(t, typ, d.bytes())
		}
	}
	t.Logf("%d documents, of which %d fit their types; %d values", n*len(decoded), ok, n*len(encoded))
	require.Greater(t, ok, n*len(decoded)/4, "the documents do not fit their types")
}
