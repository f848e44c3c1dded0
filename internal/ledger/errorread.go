package ledger

import (
	"bufio"
	"context"
	"encoding/json"
	"io"

	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

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
	dec := json.NewDecoder(bufio.NewReader(body))
	for {
		var line struct {
			Failure json.RawMessage `json:"failure"`
			wire.Again
		}
		err := dec.Decode(&line)
		switch {
		case err == io.EOF:
			return body.Verify(e.ErrBytes, e.ErrSum)
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
