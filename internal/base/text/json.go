package text

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"
)

// JSON is json.Marshal, but <, > and & stay as they are: what carries values of others does not change them.
func JSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// JSONField returns an object in JSON with one more field, whose value in JSON keeps its bytes; none is null. The name
// needs no escapes.
func JSONField(object []byte, name string, value []byte) []byte {
	if len(value) == 0 {
		value = []byte("null")
	}
	object = object[:len(object)-1]
	line := make([]byte, 0, len(object)+len(name)+len(value)+len(`,"":}`))
	line = append(line, object...)
	if len(object) > 1 {
		line = append(line, ',')
	}
	line = append(append(append(line, '"'), name...), `":`...)
	return append(append(line, value...), '}')
}

// JSONSize returns how many bytes json.Marshal makes of a string, or some more.
func JSONSize(s string) int {
	size := len(`""`)
	for i := 0; i < len(s); {
		if b := s[i]; b < utf8.RuneSelf {
			switch {
			case b == '"', b == '\\':
				size += 2
			case b < ' ', b == '<', b == '>', b == '&', b == 0x7f:
				size += len(`\u0000`)
			default:
				size++
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 || r == '\u2028' || r == '\u2029' {
			size += len(`\u0000`)
		} else {
			size += n
		}
		i += n
	}
	return size
}

// Base64Size returns how many bytes json.Marshal makes of n bytes.
func Base64Size(n int) int { return len(`""`) + base64.StdEncoding.EncodedLen(n) }
