package feedstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// part is what is known of a part. It does not change.
type part struct {
	results []byte // nil: they are too many to be kept
	items   []place
	size    int64 // in memory
}

// place is where the outcome of an item is.
type place struct {
	from, to int64           // of the results, without the end of the line
	failure  json.RawMessage // not nil: there is no result
	dropped  bool
}

const placeSize = 56

// readPart reads a part and checks that it is what was accepted. It keeps results of up to whole bytes.
func readPart(ctx context.Context, dir store.Dir, at wire.StoredPart, whole int64) (*part, error) {
	e := ledger.OwnedEntry{Entry: entryOf(at), Owner: at.Run}
	p := &part{}
	notes, err := readNotes(ctx, dir, e)
	if err != nil {
		return nil, err
	}
	lines, err := openLines(ctx, dir, e)
	if err != nil {
		return nil, err
	}
	defer lines.Close()
	if at.Bytes <= whole {
		p.results = make([]byte, 0, at.Bytes)
	}
	var offset int64
	for {
		for len(notes) > 0 && notes[0].At == offset {
			p.items = append(p.items, place{failure: notes[0].failure, dropped: notes[0].Dropped})
			p.size += int64(len(notes[0].failure)) + placeSize
			notes = notes[1:]
		}
		line, err := lines.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if at.Bytes <= whole {
			p.results = append(p.results, line...)
		}
		length := int64(len(line))
		p.items = append(p.items, place{from: offset, to: offset + length - 1})
		p.size += placeSize
		offset += length
	}
	if err := lines.Verify(at.Bytes, at.Sum); err != nil {
		return nil, err
	}
	if int64(len(p.items)) != at.Count || len(notes) > 0 {
		return nil, ledger.Permanent(job.ErrorCorrupt, fmt.Errorf("part %s has %d outcomes and %d notes too many, and had %d items", lines.Key, len(p.items), len(notes), at.Count))
	}
	p.size += int64(len(p.results))
	return p, nil
}

// note is a line about an item without a result.
type note struct {
	wire.ErrorLine
	failure json.RawMessage
}

func readNotes(ctx context.Context, dir store.Dir, e ledger.OwnedEntry) ([]note, error) {
	var notes []note
	err := ledger.EachErrorLine(ctx, dir, e, func(line wire.ErrorLine) error {
		n := note{ErrorLine: line}
		if !line.Dropped {
			f := line.Failure
			f.Source, f.Offset, f.Input = "", 0, nil
			data, err := text.JSON(f)
			if err != nil {
				return err
			}
			n.failure = data
		}
		n.Failure, n.Raw = job.Failure{}, ""
		notes = append(notes, n)
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, gone(ledger.ErrorsKey(e.Owner, e.Entry))
	}
	return notes, err
}

// partLines reads the lines of a part's results.
type partLines struct {
	*ledger.SummedReader
	in *ledger.Lines
}

// openLines opens the results of a part; without any, no object is read. The caller must close it.
func openLines(ctx context.Context, dir store.Dir, e ledger.OwnedEntry) (*partLines, error) {
	key := ledger.ResultsKey(e.Owner, e.Entry)
	body := io.NopCloser(bytes.NewReader(nil))
	if e.Bytes > 0 {
		opened, err := dir.Open(ctx, key, 0, -1)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, gone(key)
		}
		if err != nil {
			return nil, err
		}
		body = opened
	}
	s := ledger.NewSummedReader(key, body)
	return &partLines{SummedReader: s, in: ledger.NewLines(s, 64<<10)}, nil
}

// next returns the next line with its end; it is valid until the next call. io.EOF: there is none.
func (l *partLines) next() ([]byte, error) {
	line, err := l.in.Next()
	if err != nil && err != io.EOF {
		err = l.Broken(err)
	}
	return line, err
}
