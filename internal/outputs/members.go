package outputs

import (
	"bytes"
	"encoding/json"

	"github.com/stint-run/stint/internal/inputs"
	"github.com/stint-run/stint/internal/jsonscan"
)

// notObjectError reports a line that is not a JSON object.
type notObjectError struct{}

func (*notObjectError) Error() string { return "not a JSON object" }

// eachMember calls fn with each key of a JSON object, as a text, and its value in JSON, in their order. They are valid as long as the
// line. It returns a *notObjectError, if the line is something else, perhaps after some calls.
func eachMember(line []byte, fn func(key, value []byte) error) error {
	i := jsonscan.Space(line, 0)
	if end, _ := jsonscan.Value(line, i); end < 0 || line[i] != '{' || jsonscan.Space(line, end) != len(line) {
		return eachMemberSlowly(line, fn) // jsonscan is not sure of it
	}
	for i = jsonscan.Space(line, i+1); line[i] != '}'; i = jsonscan.Space(line, i) {
		if line[i] == ',' {
			i = jsonscan.Space(line, i+1)
		}
		from := i
		i, _ = jsonscan.Value(line, i)
		key := cellText(line[from:i])
		from = jsonscan.Space(line, jsonscan.Space(line, i)+1) // behind the colon
		i, _ = jsonscan.Value(line, from)
		if err := fn(key, line[from:i]); err != nil {
			return err
		}
	}
	return nil
}

// eachMemberSlowly is eachMember for objects that are nested deeply, and for what is none.
func eachMemberSlowly(line []byte, fn func(key, value []byte) error) error {
	d := json.NewDecoder(bytes.NewReader(line))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') || !json.Valid(line) {
		return &notObjectError{}
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return inputs.IgnoreEOF(err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		if err := fn([]byte(key.(string)), value); err != nil {
			return err
		}
	}
	return nil
}
