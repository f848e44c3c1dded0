package feedstore

import (
	"bufio"
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
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
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
func readPart(ctx context.Context, dir store.Dir, at jobs.FeedPart, whole int64) (*part, error) {
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
		length, err := lines.line(&p.results, at.Bytes <= whole)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
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
	ledger.ErrorLine
	failure json.RawMessage
}

func readNotes(ctx context.Context, dir store.Dir, e ledger.OwnedEntry) ([]note, error) {
	var notes []note
	err := ledger.EachErrorLine(ctx, dir, e, func(line ledger.ErrorLine) error {
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
	in *bufio.Reader
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
	return &partLines{SummedReader: s, in: bufio.NewReaderSize(s, 64<<10)}, nil
}

// line reads a line, and returns its length with its end. If it is kept, it is appended to kept. io.EOF: there is none.
func (l *partLines) line(kept *[]byte, keep bool) (int64, error) {
	length := int64(0)
	for {
		piece, err := l.in.ReadSlice('\n')
		length += int64(len(piece))
		if keep {
			*kept = append(*kept, piece...)
		}
		switch {
		case err == nil:
			return length, nil
		case err == bufio.ErrBufferFull:
		case err == io.EOF && length == 0:
			return 0, io.EOF
		case err == io.EOF:
			return 0, l.Broken(io.ErrUnexpectedEOF)
		default:
			return 0, l.Broken(err)
		}
	}
}
