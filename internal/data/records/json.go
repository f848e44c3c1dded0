package records

import (
	"bytes"
	"encoding/json"

	"github.com/stint-run/stint/internal/wire"
)

// JSON is that of JSON values of any number of lines each, or one array of them.
const JSON wire.Format = "json"

var jsonFormat = format{
	name:  JSON,
	guess: nameJSON, look: lookAt,
	scan: func(s wire.Shape, scan *scanner) {
		scan.find, scan.array = (*scanner).nextValue, s.Array
	},
	appendJSON: appendJSONValue,
	// In a file values are the elements of an array, whatever they were in, so each must be one.
	begin: func(_ *wire.Shape, dst []byte) []byte { return append(dst, '[') }, between: ",", end: "]",
	checked: true,
}

// appendJSONValue appends a JSON value, which is valid UTF-8, on one line.
func appendJSONValue(_ *wire.Shape, dst, raw []byte) ([]byte, error) {
	if err := checkJSON(raw); err != nil {
		return dst, err
	}
	if bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return append(dst, raw...), nil
	}
	line := bytes.NewBuffer(dst)
	_ = json.Compact(line, raw) // it is valid
	return line.Bytes(), nil
}
