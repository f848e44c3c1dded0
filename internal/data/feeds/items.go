package feeds

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/stint-run/stint/internal/base/formats"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// SourceName returns what people know a feed's items by.
func SourceName(jobName string) string { return "feed " + jobName }

// Items gives Process the items of one batch of a feed, which are in memory. One goroutine may use it.
//
// In jsonl a handler gets an item's value, and a filter the value as one compact line. In text an item is a string, and
// reaches handlers and filters as a line of a text file would. A value that is no such line is a failed item.
type Items struct {
	name  string
	batch wire.Batch
	// lines: the batch is a range of bytes, in which each item is a line. Otherwise it has no bytes.
	lines bool
	items []json.RawMessage
	shape wire.Shape

	read   int // items
	count  int // items that are done
	bytes  int64
	buffer bytes.Buffer
}

// NewItems returns the items of a batch of the named job: as many as the batch has. The error is permanent.
func NewItems(jobName string, batch wire.Batch, items []json.RawMessage, shape wire.Shape) (*Items, error) {
	switch {
	case !records.Lines(&shape):
		return nil, ledger.Permanent(job.ErrorInvalid, fmt.Errorf("%s of a feed: format %q: use %s", batch, shape.Format, formats.LineNames()))
	case int64(len(items)) != batch.Count:
		return nil, ledger.Permanent(job.ErrorInvalid, fmt.Errorf("%s of a feed came with %d items", batch, len(items)))
	}
	return &Items{name: SourceName(jobName), batch: batch, items: items, shape: shape}, nil
}

// Shape returns the form of the items.
func (s *Items) Shape() *wire.Shape { return &s.shape }

// Next gives the next items: see [inputs.Range.Next].
func (s *Items) Next(chunk *records.Chunk, items, size int) error {
	chunk.Reset()
	chunk.Reserve(min(items, len(s.items)-s.read), 0)
	for s.read < len(s.items) {
		value := s.items[s.read]
		if n := len(chunk.Items); n > 0 && (n >= items || size < len(value)) {
			return nil
		}
		raw, err := s.line(value)
		chunk.Add(raw, &s.shape, err)
		size -= len(value)
		s.read++
	}
	if len(chunk.Items) == 0 {
		return io.EOF
	}
	return nil
}

// line returns a value as a line of a file in the format; it is valid until the next call. If it is none, it returns
// the value as it is, and an error that says why.
func (s *Items) line(value json.RawMessage) ([]byte, error) {
	if records.JSONLines(&s.shape) {
		s.buffer.Reset()
		if err := json.Compact(&s.buffer, value); err != nil {
			return value, &records.InvalidError{Reason: fmt.Sprintf("is not JSON: %v", err)}
		}
		return s.buffer.Bytes(), nil
	}
	var text string
	if !bytes.HasPrefix(bytes.TrimLeft(value, " \t\r\n"), []byte(`"`)) || json.Unmarshal(value, &text) != nil {
		return value, &records.InvalidError{Reason: "is not a string, as the items of a feed in format text are"}
	}
	line := []byte(text)
	if bytes.IndexByte(line, '\n') >= 0 {
		return line, &records.InvalidError{Reason: "has a line break, and format text has one line an item"}
	}
	return line, nil
}

// Done counts the next items as done.
func (s *Items) Done(items []records.Item) {
	for range items {
		s.bytes += int64(len(s.items[s.count]))
		s.count++
	}
}

// Split returns the items that are done, which have no bytes, and the rest of the batch: nil if all are.
func (s *Items) Split() (done wire.Batch, rest *wire.Batch) {
	count := int64(s.count)
	done = wire.Batch{First: s.batch.First, Count: count}.Sealed()
	if count < s.batch.Count {
		length := int64(0)
		if s.lines {
			length = s.bytes + count // with the ends of the lines
		}
		after := s.batch.After(count, length)
		rest = &after
	}
	return done, rest
}

// Bytes returns how many the items that are done have.
func (s *Items) Bytes() int64 { return s.bytes }

// Origin returns the item, and the name of the feed.
func (s *Items) Origin(_ context.Context, _ int64, shape *wire.Shape, item *records.Item) (records.Origin, error) {
	return records.Origin{Source: s.name, Shape: shape, Item: item}, nil
}

// Original returns the given ordinal: the feed is the first to number its items.
func (s *Items) Original(_ context.Context, ordinal int64) (int64, error) { return ordinal, nil }

// NotesDrops returns true: results are matched with their items.
func (s *Items) NotesDrops() bool { return true }

// Unchanged returns nil: nobody can change them.
func (s *Items) Unchanged(context.Context) error { return nil }

// Close does nothing.
func (s *Items) Close() {}

// Sink takes the outcomes of one batch of a feed: it holds them, up to [wire.MaxInline] bytes, and writes them to a
// part from then on. It does not open the store before that. One goroutine may use it.
type Sink struct {
	open  func() (store.Dir, error)
	run   string
	first int64

	inline wire.Inline
	size   int
	token  string
	part   *outputs.Part // nil: there is none
}

// NewSink returns the sink of a batch of the run that begins with the given ordinal. open opens the job's store.
func NewSink(run string, first int64, open func() (store.Dir, error)) *Sink {
	return &Sink{open: open, run: run, first: first}
}

// At returns the bytes of results so far.
func (s *Sink) At() int64 {
	if s.part != nil {
		return s.part.At()
	}
	return int64(len(s.inline.Results))
}

// Results takes results. It keeps nothing of lines.
func (s *Sink) Results(ctx context.Context, lines []byte) (next []byte, err error) {
	if err := s.grow(ctx, len(lines)); err != nil {
		return lines[:0], err
	}
	if s.part != nil {
		return s.part.Results(ctx, lines)
	}
	s.inline.Results = append(s.inline.Results, lines...)
	return lines[:0], nil
}

// Note takes a line about an item without a result.
func (s *Sink) Note(ctx context.Context, line wire.ErrorLine) error {
	if err := s.grow(ctx, line.Size()); err != nil {
		return err
	}
	if s.part != nil {
		return s.part.Note(ctx, line)
	}
	s.inline.Notes = append(s.inline.Notes, line)
	return nil
}

// grow makes room for so many more bytes: if they are too many, in a part.
func (s *Sink) grow(ctx context.Context, more int) error {
	if s.part != nil {
		return nil
	}
	if s.size += more; s.size <= wire.MaxInline {
		return nil
	}
	dir, err := s.open()
	if err != nil {
		return err
	}
	e := wire.Entry{Part: ledger.NewToken()}
	e.First = s.first
	s.token, s.part = e.Part, outputs.NewPart(dir, s.run, e, outputs.NoJoiner{})
	if _, err := s.part.Results(ctx, s.inline.Results); err != nil {
		return err
	}
	for _, line := range s.inline.Notes {
		if err := s.part.Note(ctx, line); err != nil {
			return err
		}
	}
	s.inline = wire.Inline{}
	return nil
}

// Commit makes a part durable, if there is one, and names it in the entry. It sets the sizes and checksums of the
// entry, which of inline outcomes are those that a part of them would have.
func (s *Sink) Commit(entry *wire.Entry) error {
	entry.Part = s.token
	if s.part != nil {
		return s.part.Commit(entry)
	}
	return s.inline.Sums(entry)
}

// Inline returns the outcomes if no part has them; nil: one has.
func (s *Sink) Inline() *wire.Inline {
	if s.part != nil {
		return nil
	}
	return &s.inline
}

// Close discards a part that is not committed.
func (s *Sink) Close() {
	if s.part != nil {
		s.part.Close()
	}
}
