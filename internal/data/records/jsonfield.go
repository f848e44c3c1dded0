package records

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/stint-run/stint/internal/base/jsonscan"
)

// Field returns the value of a field of a JSON object: the last one, if it has several of the name.
func Field(object []byte, field string) (value []byte, ok bool) {
	if value, ok, sure := scanField(object, field); sure {
		return value, ok
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(object, &all) != nil {
		return nil, false
	}
	value, ok = all[field]
	return value, ok
}

// scanField is Field, without building values. It is not sure of what package jsonscan is not sure of.
func scanField(object []byte, field string) (value []byte, ok, sure bool) {
	i := jsonscan.Space(object, 0)
	if i >= len(object) || object[i] != '{' {
		return nil, false, true
	}
	i = jsonscan.Space(object, i+1)
	for first := true; ; first = false {
		switch {
		case i >= len(object):
			return nil, false, false
		case object[i] == '}':
			return value, ok, jsonscan.Space(object, i+1) == len(object)
		case !first && object[i] == ',':
			i = jsonscan.Space(object, i+1)
		case !first:
			return nil, false, false
		}
		if i >= len(object) || object[i] != '"' {
			return nil, false, false
		}
		end, _ := jsonscan.Value(object, i)
		if end < 0 {
			return nil, false, false
		}
		name := object[i:end]
		if i = jsonscan.Space(object, end); i >= len(object) || object[i] != ':' {
			return nil, false, false
		}
		i = jsonscan.Space(object, i+1)
		if end, _ = jsonscan.Value(object, i); end < 0 {
			return nil, false, false
		}
		if names(name, field) {
			value, ok = object[i:end], true
		}
		i = jsonscan.Space(object, end)
	}
}

// names reports whether a JSON string is the name of the field.
func names(quoted []byte, field string) bool {
	plain := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(plain, '\\') < 0 {
		return string(plain) == field
	}
	var name string
	return json.Unmarshal(quoted, &name) == nil && name == field
}

// FieldAt returns the value at a path of names, such as "place.country", in a JSON object. A name with a dot in it comes
// before the path.
func FieldAt(object []byte, path string) (value []byte, ok bool) {
	if value, ok := Field(object, path); ok {
		return value, true
	}
	name, rest, deeper := strings.Cut(path, ".")
	if !deeper {
		return nil, false
	}
	if object, ok = Field(object, name); !ok {
		return nil, false
	}
	return FieldAt(object, rest)
}
