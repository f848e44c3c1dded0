package codec

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// documents makes JSON documents, most of which fit a type.
type documents struct {
	r     *rand.Rand
	names []string // of fields of any type
}

func newDocuments(seed uint64) *documents {
	return &documents{rand.New(rand.NewPCG(seed, 0)), fieldNames}
}

var fieldNames = namesOf(tested)

func namesOf(all []reflect.Type) (names []string) {
	seen := map[reflect.Type]bool{}
	var walk func(t reflect.Type)
	walk = func(t reflect.Type) {
		if seen[t] {
			return
		}
		seen[t] = true
		switch t.Kind() {
		case reflect.Struct:
			for field := range t.Fields() {
				names = append(names, nameOf(field))
				walk(field.Type)
			}
		case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array:
			walk(t.Elem())
		}
	}
	for _, t := range all {
		walk(t)
	}
	return names
}

func nameOf(f reflect.StructField) string {
	if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
		return name
	}
	return f.Name
}

func one[T any](d *documents, of ...T) T { return of[d.r.IntN(len(of))] }

// in reports, in one of n cases, true.
func (d *documents) in(n int) bool { return d.r.IntN(n) == 0 }

func (d *documents) text() string {
	if !d.in(3) {
		return one(d, quote(d.number()), `"abc"`, `"some text here, of some length"`, `""`, `"12"`, `"-1.5e3"`, `"true"`, `"null"`, `"t:x"`, `"2026-01-02T03:04:05Z"`, `"aGVsbG8="`, `"\"x\""`)
	}
	var b strings.Builder
	for range d.r.IntN(12) {
		b.WriteString(one(d, "a", "é", "<", "&", `\u2028`, "\u2028", `\n`, `\"`, `\\`, `\/`, `\ud83d\ude00`, `\ud800`, `\udc00x`,
			"\xff", "\xc3", "\xed\xa0\x80", "😀", `\u0000`, "\t", "\x7f", `\b\f`, `\x`, `\u12`, "\ufffd", `\u00e9`, "k", "\u212a", "ſ"))
	}
	return `"` + b.String() + `"`
}

func (d *documents) number() string {
	if d.in(2) {
		return strconv.Itoa(d.r.IntN(1000) - 300)
	}
	return one(d, "0", "-0", "1.0", "1e3", "1E+2", "1e-3", "1e400", "-1e400", "0.1", "9223372036854775807", "9223372036854775808",
		"-9223372036854775808", "-9223372036854775809", "18446744073709551615", "18446744073709551616", "127", "128", "255", "256", "-1",
		"01", "1.", ".5", "-", "+1", "1e", "0x1", "NaN", "1_0", "123456789012345678901234567890", "3.4028235e38", "3.5e38", "0.000001",
		"1e-7", "1e21", "5e-324", "2e-324", "0.30000000000000004", "1"+strings.Repeat("0", d.r.IntN(400)), "0."+strings.Repeat("0", d.r.IntN(30))+"7")
}

func (d *documents) name() string {
	n := one(d, d.names...)
	switch d.r.IntN(12) {
	case 0:
		n = strings.ToUpper(n)
	case 1:
		n = strings.ToLower(n)
	case 2:
		n = strings.NewReplacer("k", "\u212a", "s", "ſ").Replace(n)
	case 3:
		return strings.ReplaceAll(quote(n), "a", `\u0061`)
	case 4:
		n += "x"
	}
	return quote(n)
}

func (d *documents) space() string {
	if !d.in(20) {
		return ""
	}
	return one(d, " ", "\n", "\t", "\r", "  ", "\f", "\u00a0")
}

// any makes a value of any kind, and now and then what is not one.
func (d *documents) any(depth int) string { return d.space() + d.bare(depth) + d.space() }

func (d *documents) bare(depth int) string {
	n := d.r.IntN(10)
	if depth <= 0 {
		n = d.r.IntN(6)
	}
	switch n {
	case 0, 1:
		return d.text()
	case 2, 3:
		return d.number()
	case 4:
		return one(d, "true", "false", "null")
	case 5:
		return one(d, "true", "null", "null", "[]", "{}", "nul", "tru", "{", "]", "")
	case 6, 7:
		return "[" + d.list(5, func() string { return d.any(depth - 1) }) + d.close("]", ",]", "}", "")
	}
	return "{" + d.list(6, func() string {
		name := d.name()
		if d.in(6) {
			name = d.text()
		}
		return d.space() + name + d.space() + ":" + d.any(depth-1)
	}) + d.close("}", ",}", "]", "")
}

func (d *documents) list(most int, item func() string) string {
	var items []string
	for range d.r.IntN(most) {
		items = append(items, item())
	}
	return strings.Join(items, ",")
}

func (d *documents) close(right string, wrong ...string) string {
	if d.in(15) {
		return one(d, wrong...)
	}
	return right
}

// of makes a document for a type.
func (d *documents) of(t reflect.Type, depth int) string {
	if depth <= 0 || d.in(25) {
		return d.any(1)
	}
	if t == reflect.TypeFor[time.Time]() {
		return one(d, `"2026-01-02T03:04:05Z"`, `"2026-01-02T03:04:05.123+01:00"`, `"2026-13-02T03:04:05Z"`, "null", d.text(),
			`"2026-01-02t03:04:05z"`, `"2026-01-02T03:04:05,5Z"`, `"2026-01-02T3:04:05Z"`)
	}
	if !d.in(10) {
		switch t.Kind() {
		case reflect.String:
			return d.text()
		case reflect.Bool:
			return one(d, "true", "false")
		case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
			reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
			return d.number()
		}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.of(t.Elem(), depth)
	case reflect.Slice, reflect.Array:
		return "[" + d.list(5, func() string { return d.of(t.Elem(), depth-1) }) + "]"
	case reflect.Map:
		return "{" + d.list(5, func() string { return one(d, d.text(), quote(d.number())) + ":" + d.of(t.Elem(), depth-1) }) + "}"
	case reflect.Struct:
		return d.object(t, depth)
	}
	return d.any(depth)
}

func (d *documents) object(t reflect.Type, depth int) string {
	var members []string
	for f := range t.Fields() {
		if d.in(5) {
			continue
		}
		value := d.of(f.Type, depth-1)
		if strings.Contains(f.Tag.Get("json"), ",string") && !d.in(4) {
			value = quote(value)
		}
		n := nameOf(f)
		name := quote(n)
		if d.in(15) {
			name = one(d, quote(strings.ToUpper(n)), quote(strings.ToLower(n)), d.name())
		}
		members = append(members, d.space()+name+d.space()+":"+d.space()+value)
	}
	if d.in(4) {
		d.r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	}
	if len(members) > 0 && d.in(6) {
		members = append(members, one(d, members...), d.space()+quote(nameOf(t.Field(d.r.IntN(t.NumField()))))+":"+d.any(1))
	}
	return "{" + strings.Join(members, ",") + "}"
}

// document makes a document for a type, a quarter of them with a byte or two changed.
func (d *documents) document(t reflect.Type) []byte {
	doc := []byte(d.of(t, 4))
	if len(doc) > 0 && d.in(4) {
		for range 1 + d.r.IntN(2) {
			doc[d.r.IntN(len(doc))] = one(d, byte('"'), '{', '}', ',', ':', '[', ']', '\\', '0', 'e', '-', ' ', 0xff, 'n', byte(d.r.UintN(256)))
		}
	}
	return doc
}

// bytes makes bytes for a filler.
func (d *documents) bytes() []byte {
	b := make([]byte, d.r.IntN(400))
	for i := range b {
		if b[i] = byte(d.r.UintN(256)); d.in(3) {
			b[i] = one(d, byte(0), 1, 2, 3, '<', '&', 'a', '"', '\\', '\n')
		}
	}
	return b
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
