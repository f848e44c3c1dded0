package feeds

import (
	"context"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/outputs"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/internal/wire"
)

// Sink takes the outcomes of one batch of a feed: it holds them, up to [wire.MaxInline] bytes, and writes them to a part from
// then on. It does not open the store before that. One goroutine may use it.
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

// At is the bytes of results so far.
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

// Commit makes a part durable, if there is one, and names it in the entry. It sets the sizes and checksums of the entry,
// which of inline outcomes are those that a part of them would have.
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
