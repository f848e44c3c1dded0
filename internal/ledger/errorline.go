package ledger

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/job"
)

// ErrorLine is one line of a part's errors: the record, and where in the part's results the item's
// own result would have been.
type ErrorLine struct {
	At      int64       `json:"at"` // bytes of results before it
	Failure job.Failure `json:"failure"`
	again
}

// again extends an error record: how a redrive runs the item again.
type again struct {
	// Raw is the item's line, byte for byte, if the record's input is not: jsonl with white space. With Dropped it is the line
	// that a filter would be given, in Bytes if it is not UTF-8; without either nobody wants it.
	Raw   string `json:"raw,omitempty"`
	Bytes []byte `json:"bytes,omitempty"`
	// Never means that the item cannot be run again: it is not in its format, or too long to keep.
	Never bool `json:"never,omitempty"`
	// Dropped means that the line is not an error: the item had no result. If it was run again, Finish could not know without
	// this line which items the results of the part belong to.
	Dropped bool `json:"dropped,omitempty"`
	// Lines, if it is set, means that the line is not an error, either: the results of an item that was run again are so many
	// lines, which are not one.
	Lines *int64 `json:"lines,omitempty"`
	// Silent means that the line is not an error record, although its item has failed: the job drops errors. A feed notes
	// the item, because its client asks what has become of it.
	Silent bool `json:"silent,omitempty"`
}

// IsRecord reports whether the line is an error record: others only say which items have no result, or several.
func (a *again) IsRecord() bool { return !a.Dropped && !a.Silent && a.Lines == nil }

// NewErrorLine returns the line of an item that has failed. It sets the failure's Input.
func NewErrorLine(at int64, failure job.Failure, shape *records.Shape, item *records.Item) ErrorLine {
	failure.Input = failureInput(shape, item)
	return ErrorLine{At: at, Failure: failure, again: runAgain(shape, item, failure.Input)}
}

// SilentLine is [NewErrorLine] for an item of a job that drops errors: it is not an error record, and keeps no input.
func SilentLine(at int64, failure job.Failure) ErrorLine {
	failure.Input = json.RawMessage("null")
	return ErrorLine{At: at, Failure: failure, again: again{Silent: true}}
}

// LostLine is the line of an item that is lost, with its input.
func LostLine(failure job.Failure) ErrorLine {
	return ErrorLine{Failure: failure, again: again{Never: true}}
}

// DroppedLine notes an item without a result.
func DroppedLine(at int64) ErrorLine { return ErrorLine{At: at, again: again{Dropped: true}} }

// DroppedItem notes an item without a result, and its line, for a file of dropped items.
func DroppedItem(at int64, line []byte) ErrorLine {
	note := DroppedLine(at)
	if utf8.Valid(line) {
		note.Raw = string(line)
	} else {
		note.Bytes = line
	}
	return note
}

// ItemLine is the line of a dropped item; nil if it was not kept.
func (a *again) ItemLine() []byte {
	if a.Raw != "" {
		return []byte(a.Raw)
	}
	return a.Bytes
}

// LinesNote notes an item with so many lines of results.
func LinesNote(at, lines int64) ErrorLine { return ErrorLine{At: at, again: again{Lines: &lines}} }

// runAgain returns how an item is run again if its error record keeps input.
func runAgain(shape *records.Shape, item *records.Item, input json.RawMessage) again {
	if _, err := shape.AppendLine(nil, item); err != nil {
		return again{Never: true}
	}
	if shape.Format != records.JSONL {
		return again{}
	}
	var kept bytes.Buffer // records are written compact
	if err := json.Compact(&kept, input); err != nil || !bytes.Equal(kept.Bytes(), item.Raw) {
		return again{Raw: string(item.Raw)}
	}
	return again{}
}

// Size is the most bytes that the line has once it is encoded.
func (l *ErrorLine) Size() int {
	const names = 500
	f := &l.Failure
	size := names + text.Base64Size(len(l.Bytes)) + len(f.Input) + len(f.Partial)
	for _, s := range []string{f.Stage, f.Source, f.Kind, f.Error.Type, f.Error.Message, f.Error.Stack, l.Raw} {
		size += text.JSONSize(s)
	}
	return size
}

// Encode returns the line with its end.
func (l *ErrorLine) Encode() ([]byte, error) {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(l); err != nil {
		return nil, fmt.Errorf("writing an error record: %w", err)
	}
	return line.Bytes(), nil
}

// failureInput is an item's input as an error record keeps it.
func failureInput(shape *records.Shape, item *records.Item) json.RawMessage {
	if item.Raw == nil { // too long to keep
		return json.RawMessage("null")
	}
	if shape.Format != records.Text || !utf8.Valid(item.Raw) {
		if value, err := shape.AppendJSON(nil, item); err == nil {
			return value
		}
	}
	var value any = string(item.Raw)
	if !utf8.Valid(item.Raw) {
		value = struct {
			Base64 string `json:"base64"`
		}{base64.StdEncoding.EncodeToString(item.Raw)}
	}
	data, err := text.JSON(value)
	if err != nil {
		return json.RawMessage("null")
	}
	return data
}

// MaxFirstError keeps the one error message that travels through history short, in bytes as JSON.
const MaxFirstError = 500

// FirstError shortens an error record for reports.
func FirstError(f job.Failure) *job.FirstError {
	short := f.Error
	short.Type, short.Message, short.Stack = text.Fit(short.Type, MaxFirstError), text.Fit(short.Message, MaxFirstError), ""
	return &job.FirstError{Item: f.Item, Kind: f.Kind, Error: short}
}
