package ledger

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"reflect"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/base/codec"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
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

// LostLine returns the line of an item that is lost, with its input.
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

// ReusedLine carries the result of an item, which an earlier run had, past the steps of a pipeline.
func ReusedLine(ordinal int64, result []byte) *wire.ErrorLine {
	return &wire.ErrorLine{Failure: job.Failure{Item: ordinal}, Again: wire.Again{Reused: true, Bytes: result}}
}

// TwinLine notes an item that gets the outcome of an equal one, the first. digest may be nil.
func TwinLine(ordinal, first int64, origin records.Origin, digest []byte) *wire.ErrorLine {
	failure := job.Failure{Item: ordinal, Source: origin.Source, Offset: origin.Offset}
	return &wire.ErrorLine{Failure: failure, Again: wire.Again{Twin: &first, Bytes: digest}}
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

// failureInput returns an item's input as an error record keeps it.
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

// ErrorReader reads the lines of a part's errors; nil reads none.
type ErrorReader struct {
	*SummedReader
	dec   *json.Decoder
	entry wire.Entry
}

// OpenErrors opens the errors of a part; it returns nil if there are none. The caller must close them.
func OpenErrors(ctx context.Context, dir store.Dir, e OwnedEntry) (*ErrorReader, error) {
	if e.ErrBytes == 0 {
		return nil, nil
	}
	s, err := OpenSummed(ctx, dir, ErrorsKey(e.Owner, e.Entry))
	if err != nil {
		return nil, err
	}
	return NewErrorReader(s, e.Entry), nil
}

// NewErrorReader returns a reader of s, which has the errors of an entry. The caller must close it.
func NewErrorReader(s *SummedReader, e wire.Entry) *ErrorReader {
	return &ErrorReader{SummedReader: s, dec: json.NewDecoder(bufio.NewReader(s)), entry: e}
}

// Next returns the next line, or nil after the last one.
func (r *ErrorReader) Next() (*wire.ErrorLine, error) {
	if r == nil {
		return nil, nil
	}
	var line wire.ErrorLine
	err := r.dec.Decode(&line)
	switch {
	case err == io.EOF:
		return nil, r.Verify(r.entry.ErrBytes, r.entry.ErrSum)
	case err != nil:
		return nil, r.Broken(err)
	}
	return &line, nil
}

// Close closes the errors.
func (r *ErrorReader) Close() {
	if r != nil {
		r.SummedReader.Close()
	}
}

// EachErrorLine calls fn with the lines of a part's errors until it returns an error.
func EachErrorLine(ctx context.Context, dir store.Dir, e OwnedEntry, fn func(wire.ErrorLine) error) error {
	r, err := OpenErrors(ctx, dir, e)
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		line, err := r.Next()
		if err != nil || line == nil {
			return err
		}
		if err := fn(*line); err != nil {
			return err
		}
	}
}

// CopyErrors writes the error records of the chain in order, one a line.
func CopyErrors(ctx context.Context, dir store.Dir, links Links, w io.Writer) error {
	return Entries(ctx, dir, links, func(e OwnedEntry) error {
		if e.ErrBytes == 0 {
			return nil
		}
		return CopyPartErrors(ctx, dir, ErrorsKey(e.Owner, e.Entry), e.Entry, w)
	})
}

// CopyDropped writes the lines of the items of the chain that were dropped, in order, as far as they were kept.
func CopyDropped(ctx context.Context, dir store.Dir, links Links, w io.Writer) error {
	return Entries(ctx, dir, links, func(e OwnedEntry) error {
		if e.Dropped == 0 {
			return nil
		}
		return EachErrorLine(ctx, dir, e, func(line wire.ErrorLine) error {
			item := line.ItemLine()
			if !line.Dropped || item == nil {
				return nil
			}
			_, err := w.Write(append(item, '\n'))
			return StoreError(job.ErrorOutput, err)
		})
	})
}

// CopyPartErrors writes the error records of one part, whose object is at key, one a line.
func CopyPartErrors(ctx context.Context, dir store.Dir, key string, e wire.Entry, w io.Writer) error {
	body, err := OpenSummed(ctx, dir, key)
	if err != nil {
		return err
	}
	defer body.Close()
	var line, none struct {
		Failure json.RawMessage `json:"failure"`
		wire.Again
	}
	as, lines := codec.ForDecoding(reflect.TypeOf(line)), NewLines(body, 64<<10)
	for {
		data, err := lines.Next()
		if err == io.EOF {
			return body.Verify(e.ErrBytes, e.ErrSum)
		}
		if line = none; err == nil {
			err = as.Unmarshal(data, &line)
		}
		switch {
		case err != nil:
			return body.Broken(err)
		case !line.IsRecord():
			continue
		}
		if _, err := w.Write(append(line.Failure, '\n')); err != nil {
			return StoreError(job.ErrorOutput, err)
		}
	}
}

// Lines reads lines of any length.
type Lines struct {
	*bufio.Reader
	long []byte // a line that is longer than the reader's buffer
}

// NewLines returns a reader of the lines of r, which reads so many bytes at once.
func NewLines(r io.Reader, bytes int) *Lines { return &Lines{Reader: bufio.NewReaderSize(r, bytes)} }

// Next returns the next line with its end; it is valid until the next call. The error is io.EOF if there is none,
// io.ErrUnexpectedEOF if the last one has no end, and otherwise the reader's.
func (l *Lines) Next() ([]byte, error) {
	l.long = l.long[:0]
	for {
		piece, err := l.ReadSlice('\n')
		if err == nil && len(l.long) == 0 {
			return piece, nil
		}
		l.long = append(l.long, piece...)
		if err == bufio.ErrBufferFull {
			continue
		}
		if err == io.EOF && len(l.long) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return l.long, err
	}
}
