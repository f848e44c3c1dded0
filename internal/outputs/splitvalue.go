package outputs

import (
	"bytes"
	"encoding/json"

	"github.com/stint-run/stint/internal/jsonscan"
	"github.com/stint-run/stint/internal/location"
)

// fileOf returns what stands for the value of a field in the name of the file that a result goes to.
func fileOf(result []byte, field string) string {
	value, ok := fieldOf(result, field)
	if !ok || len(value) == 0 {
		return location.NoValue
	}
	switch value[0] {
	case '{', '[', 'n':
		return location.NoValue
	case '"':
		var text string
		if err := json.Unmarshal(value, &text); err != nil {
			return location.NoValue
		}
		return location.ValueName(text)
	}
	return location.ValueName(string(value))
}

// fieldOf returns the value of a field of a JSON object: the last one, if it has several of the name.
func fieldOf(object []byte, field string) (value []byte, ok bool) {
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

// scanField is fieldOf, without building values. It is not sure of what package jsonscan is not sure of.
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
