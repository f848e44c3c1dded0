package activities

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/job"
)

// A redrive runs the failed items of a completed job again. Its input is what the error records keep
// of them, which Plan copies into the store as a source of its own, one after the other: the ordinals
// of the redrive count these. Finish merges what comes of them into the job's output.

// again tells, beside an error record, how the item is run again.
type again struct {
	// Raw is the item's line where the record's input is not it, byte for byte: jsonl with white space.
	Raw string `json:"raw,omitempty"`
	// Never says that the item cannot be run again: it is not in its format, or too long to keep.
	Never bool `json:"never,omitempty"`
	// Dropped says that the line is no error: an item that was run again had no result. It is noted
	// for Finish, which could not tell otherwise whose results the part's are.
	Dropped bool `json:"dropped,omitempty"`
}

// runAgain tells how an item is run again of which a record keeps input.
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

func (l *failureLine) encode() ([]byte, error) {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(l); err != nil {
		return nil, fmt.Errorf("writing an error record: %w", err)
	}
	return line.Bytes(), nil
}

// noteDrop notes in a redrive's part that an item has no result.
func (e *execution) noteDrop(at int64) error {
	if !e.source.redriven() {
		return nil
	}
	return e.note(failureLine{At: at, again: again{Dropped: true}})
}

// redriveURL stands for the source that a redrive's items come from.
const redriveURL = "the failed items"

// redriven tells whether the source is the copy of failed items. Nobody else writes there, so that it
// is not looked at for changes.
func (s *Source) redriven() bool { return s.URL == redriveURL }

// formatAgain is the format in which items of a format are run again: those of CSV as the objects that
// handlers have been given.
func formatAgain(f records.Format) records.Format {
	if f == records.CSV {
		return records.JSONL
	}
	return f
}

// item is the line by which an item of a source in format f is run again; ok is false where it is not.
func (l *failureLine) item(f records.Format) (line []byte, ok bool, err error) {
	switch {
	case l.Never:
		return nil, false, nil
	case l.Raw != "":
		return []byte(l.Raw), true, nil
	case f != records.Text:
		return l.Failure.Input, true, nil
	}
	var text string
	if json.Unmarshal(l.Failure.Input, &text) == nil {
		return []byte(text), true, nil
	}
	var encoded struct {
		Base64 []byte `json:"base64"`
	}
	if err := json.Unmarshal(l.Failure.Input, &encoded); err != nil {
		return nil, false, permanent(job.ErrorCorrupt, fmt.Errorf("reading the error record of item %d: %w", l.Failure.Item, err))
	}
	return encoded.Base64, true, nil
}
