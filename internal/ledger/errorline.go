package ledger

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// NewErrorLine returns the line of an item that has failed. It sets the failure's Input.
func NewErrorLine(at int64, failure job.Failure, shape *wire.Shape, item *records.Item) wire.ErrorLine {
	failure.Input = failureInput(shape, item)
	return wire.ErrorLine{At: at, Failure: failure, Again: runAgain(shape, item, failure.Input)}
}

// SilentLine is [NewErrorLine] for an item of a job that drops errors: it is not an error record, and keeps no input.
func SilentLine(at int64, failure job.Failure) wire.ErrorLine {
	failure.Input = json.RawMessage("null")
	return wire.ErrorLine{At: at, Failure: failure, Again: wire.Again{Silent: true}}
}

// LostLine is the line of an item that is lost, with its input.
func LostLine(failure job.Failure) wire.ErrorLine {
	return wire.ErrorLine{Failure: failure, Again: wire.Again{Never: true}}
}

// DroppedLine notes an item without a result.
func DroppedLine(at int64) wire.ErrorLine {
	return wire.ErrorLine{At: at, Again: wire.Again{Dropped: true}}
}

// DroppedItem notes an item without a result, and its line, for a file of dropped items.
func DroppedItem(at int64, line []byte) wire.ErrorLine {
	note := DroppedLine(at)
	if utf8.Valid(line) {
		note.Raw = string(line)
	} else {
		note.Bytes = line
	}
	return note
}

// LinesNote notes an item with so many lines of results.
func LinesNote(at, lines int64) wire.ErrorLine {
	return wire.ErrorLine{At: at, Again: wire.Again{Lines: &lines}}
}

// runAgain returns how an item is run again if its error record keeps input.
func runAgain(shape *wire.Shape, item *records.Item, input json.RawMessage) wire.Again {
	if _, err := records.AppendLine(shape, nil, item); err != nil {
		return wire.Again{Never: true}
	}
	if !records.JSONLines(shape) {
		return wire.Again{}
	}
	var kept bytes.Buffer // records are written compact
	if err := json.Compact(&kept, input); err != nil || !bytes.Equal(kept.Bytes(), item.Raw) {
		return wire.Again{Raw: string(item.Raw)}
	}
	return wire.Again{}
}

// failureInput is an item's input as an error record keeps it.
func failureInput(shape *wire.Shape, item *records.Item) json.RawMessage {
	if item.Raw == nil { // too long to keep
		return json.RawMessage("null")
	}
	if !records.TextLines(shape) {
		if value, err := records.AppendJSON(shape, nil, item); err == nil {
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
