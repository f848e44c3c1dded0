package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/job"
)

// Inline is what the objects of a small part would hold: it travels in the answer of Process, and Commit writes it to
// the store, together with others.
type Inline struct {
	// Results are the lines of the items with a result, in order.
	Results []byte `json:"r,omitempty"`
	// Notes are about every item without one, in order. Their At counts in Results.
	Notes []ErrorLine `json:"n,omitempty"`
}

// wireInline is how an Inline travels: its notes as the lines that a part would have, because JSON within JSON does not
// keep its bytes.
type wireInline struct {
	Results []byte `json:"r,omitempty"`
	Notes   []byte `json:"n,omitempty"`
}

// MarshalJSON keeps every byte of the notes.
func (i Inline) MarshalJSON() ([]byte, error) {
	notes, err := i.EncodeNotes()
	if err != nil {
		return nil, err
	}
	return json.Marshal(wireInline{i.Results, notes})
}

// UnmarshalJSON returns the inverse of MarshalJSON.
func (i *Inline) UnmarshalJSON(data []byte) error {
	var wire wireInline
	if err := json.Unmarshal(data, &wire); err != nil {
		return err
	}
	*i = Inline{Results: wire.Results}
	for dec := json.NewDecoder(bytes.NewReader(wire.Notes)); ; {
		var line ErrorLine
		switch err := dec.Decode(&line); err {
		case nil:
			i.Notes = append(i.Notes, line)
		case io.EOF:
			return nil
		default:
			return err
		}
	}
}

// EncodeNotes returns the lines of the errors that a part would have.
func (i *Inline) EncodeNotes() ([]byte, error) {
	var lines []byte
	for n := range i.Notes {
		line, err := i.Notes[n].Encode()
		if err != nil {
			return nil, err
		}
		lines = append(lines, line...)
	}
	return lines, nil
}

// Sums sets the sizes and checksums in the entry: those that a part of the same outcomes would have.
func (i *Inline) Sums(e *Entry) error {
	notes, err := i.EncodeNotes()
	if err != nil {
		return err
	}
	e.Bytes, e.Sum = int64(len(i.Results)), crc32.Checksum(i.Results, CRC32C)
	e.ErrBytes, e.ErrSum = int64(len(notes)), crc32.Checksum(notes, CRC32C)
	return nil
}

// Append appends the outcomes of the items that follow.
func (i *Inline) Append(next *Inline) {
	at := int64(len(i.Results))
	i.Results = append(i.Results, next.Results...)
	for _, line := range next.Notes {
		line.At += at
		i.Notes = append(i.Notes, line)
	}
}

// Size returns the most bytes that it has as JSON.
func (i *Inline) Size() int {
	notes := 0
	for n := range i.Notes {
		notes += i.Notes[n].Size()
	}
	return len(`{"r":,"n":}`) + text.Base64Size(len(i.Results)) + text.Base64Size(notes)
}

// Outcome is what has become of one item: a result, a failure, or neither if it was dropped.
type Outcome struct {
	Result  []byte // without the end of its line; nil if there is none
	Failure *job.Failure
}

// Outcomes returns those of all items, in order: so many items must have one.
func (i *Inline) Outcomes(count int64) ([]Outcome, error) {
	all := make([]Outcome, 0, min(count, int64(bytes.Count(i.Results, []byte("\n"))+len(i.Notes)))) // the count is somebody else's
	at, rest, notes := int64(0), i.Results, i.Notes
	for int64(len(all)) < count {
		if len(notes) > 0 && notes[0].At == at {
			if notes[0].Dropped {
				all = append(all, Outcome{})
			} else {
				all = append(all, Outcome{Failure: &notes[0].Failure})
			}
			notes = notes[1:]
			continue
		}
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			break
		}
		all = append(all, Outcome{Result: rest[:end:end]})
		rest = rest[end+1:]
		at += int64(end) + 1
	}
	if int64(len(all)) != count || len(rest) > 0 || len(notes) > 0 {
		return nil, fmt.Errorf("a batch of %d items has %d outcomes, and %d bytes and %d notes too many", count, len(all), len(rest), len(notes))
	}
	return all, nil
}

// ErrorLine is one line of a part's errors: the record, and where in the part's results the item's
// own result would have been.
type ErrorLine struct {
	At      int64       `json:"at"` // bytes of results before it
	Failure job.Failure `json:"failure"`
	Again
}

// Again extends an error record: how a redrive runs the item again.
type Again struct {
	// Raw is the item's line, byte for byte, if the record's input is not: jsonl with white space. With Dropped it is
	// the line that a filter would be given, in Bytes if it is not UTF-8; without either nobody wants it.
	Raw   string `json:"raw,omitempty"`
	Bytes []byte `json:"bytes,omitempty"`
	// Never means that the item cannot be run again: it is not in its format, or too long to keep.
	Never bool `json:"never,omitempty"`
	// Dropped means that the line is not an error: the item had no result. If it was run again, Finish could not know
	// without this line which items the results of the part belong to.
	Dropped bool `json:"dropped,omitempty"`
	// Lines, if it is set, means that the line is not an error, either: the results of an item that was run again are
	// so many lines, which are not one.
	Lines *int64 `json:"lines,omitempty"`
	// Silent means that the line is not an error record, although its item has failed: the job drops errors. A feed
	// notes the item, because its client asks what has become of it.
	Silent bool `json:"silent,omitempty"`
	// Reused means that the line is not an error record: Bytes has the item's result, which an earlier run had, with the
	// ends of its lines.
	Reused bool `json:"reused,omitempty"`
	// Twin, if it is set, means that the line is not an error record: it is the ordinal of an equal item before this one,
	// whose outcome the item gets. Failure says where the item comes from, Bytes has its digest if its result is kept for
	// a later run.
	Twin *int64 `json:"twin,omitempty"`
}

// IsRecord reports whether the line is an error record: others only say which items have no result, or several.
func (a *Again) IsRecord() bool { return !a.Dropped && !a.Silent && a.Lines == nil && !a.HasOutcome() }

// HasOutcome reports whether the line says what an item comes to without a call of its own. It passes all steps of a
// pipeline.
func (a *Again) HasOutcome() bool { return a.Reused || a.Twin != nil }

// ItemLine returns the line of a dropped item; nil if it was not kept.
func (a *Again) ItemLine() []byte {
	if a.Raw != "" {
		return []byte(a.Raw)
	}
	return a.Bytes
}

// Size returns the most bytes that the line has once it is encoded.
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
	line, err := text.JSON(l)
	if err != nil {
		return nil, fmt.Errorf("writing an error record: %w", err)
	}
	return append(line, '\n'), nil
}
