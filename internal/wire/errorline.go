package wire

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/job"
)

// ErrorLine is one line of a part's errors: the record, and where in the part's results the item's
// own result would have been.
type ErrorLine struct {
	At      int64       `json:"at"` // bytes of results before it
	Failure job.Failure `json:"failure"`
	Again
}

// Again extends an error record: how a redrive runs the item again.
type Again struct {
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
func (a *Again) IsRecord() bool { return !a.Dropped && !a.Silent && a.Lines == nil }

// ItemLine is the line of a dropped item; nil if it was not kept.
func (a *Again) ItemLine() []byte {
	if a.Raw != "" {
		return []byte(a.Raw)
	}
	return a.Bytes
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
