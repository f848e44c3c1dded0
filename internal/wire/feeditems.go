package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/jsonscan"
	"github.com/stint-run/stint/internal/text"
)

// Items are values in JSON, in compact form. In JSON they are a list of these values. But if encoding/json would escape a
// character of a value, which a filter would see, the whole list is an object, with each value in base64. Either way the
// values arrive byte for byte.
type Items []json.RawMessage

// quotedItems is how items travel which encoding/json would change.
type quotedItems struct {
	Base64 [][]byte `json:"base64"`
}

// MarshalJSON is that of json.Marshaler.
func (items Items) MarshalJSON() ([]byte, error) {
	for _, item := range items {
		if escapable(item) {
			quoted := quotedItems{Base64: make([][]byte, len(items))}
			for i := range items {
				quoted.Base64[i] = items[i]
			}
			return json.Marshal(quoted)
		}
	}
	return json.Marshal([]json.RawMessage(items))
}

// UnmarshalJSON is that of json.Unmarshaler.
func (items *Items) UnmarshalJSON(data []byte) error {
	if !bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) {
		return json.Unmarshal(data, (*[]json.RawMessage)(items))
	}
	var quoted quotedItems
	if err := json.Unmarshal(data, &quoted); err != nil {
		return fmt.Errorf("reading items: %w", err)
	}
	*items = make(Items, len(quoted.Base64))
	for i, value := range quoted.Base64 {
		if !json.Valid(value) {
			return errors.New("reading items: a value is not JSON")
		}
		(*items)[i] = value
	}
	return nil
}

// escapable reports whether encoding/json would escape a character of the value: <, >, &, U+2028 and U+2029.
func escapable(value []byte) bool {
	return bytes.ContainsAny(value, "<>&") || bytes.Contains(value, []byte("\u2028")) || bytes.Contains(value, []byte("\u2029"))
}

// ResultValue returns a line of a feed's results, which a filter may have written, as a JSON value: the line itself if it is one
// that every reader can take, or else a string of it, in which bytes that are not UTF-8 are U+FFFD.
func ResultValue(line []byte) json.RawMessage {
	if json.Valid(line) && utf8.Valid(line) && !jsonscan.TooDeep(line) {
		if bytes.IndexByte(line, '\r') < 0 {
			return line
		}
		return bytes.TrimSpace(bytes.ReplaceAll(line, []byte{'\r'}, []byte{' '})) // in JSON it is white space
	}
	data, err := text.JSON(string(line))
	if err != nil {
		return json.RawMessage("null")
	}
	return data
}
