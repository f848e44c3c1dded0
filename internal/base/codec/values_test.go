package codec

import (
	"encoding/json"
	"math"
	"reflect"
	"time"
)

// filler makes values of bytes.
type filler struct{ b []byte }

func (f *filler) byte() byte {
	if len(f.b) == 0 {
		return 0
	}
	c := f.b[0]
	f.b = f.b[1:]
	return c
}

func (f *filler) word() (n uint64) {
	for range 8 {
		n = n<<8 | uint64(f.byte())
	}
	return n
}

func (f *filler) text() string {
	n := min(int(f.byte())%24, len(f.b))
	s := string(f.b[:n])
	f.b = f.b[n:]
	return s
}

// fill sets v, to be nested at most depth deep.
func (f *filler) fill(v reflect.Value, depth int) {
	if len(f.b) == 0 || depth == 0 {
		return
	}
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(int64(f.word()>>20), int64(f.byte())).In(time.FixedZone("", int(f.byte())*60))))
		return
	case reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte(f.text()))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(f.byte()&1 == 1)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.word() >> (f.byte() % 64)))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		v.SetUint(f.word() >> (f.byte() % 64))
	case reflect.Float32, reflect.Float64:
		if f.byte()&1 == 1 {
			v.SetFloat(math.Float64frombits(f.word()))
		} else {
			v.SetFloat(float64(int64(f.word()>>(f.byte()%64))) / 64)
		}
	case reflect.String:
		v.SetString(f.text())
	case reflect.Pointer:
		if f.byte()%4 > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), depth-1)
		}
	case reflect.Slice:
		if n := int(f.byte() % 5); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n-1, n-1))
			for i := range n - 1 {
				f.fill(v.Index(i), depth-1)
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i), depth-1)
		}
	case reflect.Map:
		if n := int(f.byte() % 5); n > 0 {
			v.Set(reflect.MakeMap(v.Type()))
			for range n - 1 {
				key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				f.fill(key, depth-1)
				f.fill(value, depth-1)
				v.SetMapIndex(key, value)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				f.fill(v.Field(i), depth-1)
			} else if v.Type().Field(i).Anonymous {
				for _, field := range v.Field(i).Fields() {
					if field.CanSet() {
						f.fill(field, depth-1)
					}
				}
			}
		}
	case reflect.Interface:
		if v.NumMethod() > 0 {
			return
		}
		c := reflect.New(tested[int(f.byte())%len(tested)]).Elem()
		f.fill(c, depth-1)
		v.Set(c)
	}
}
