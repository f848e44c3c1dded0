package inputs

import (
	"context"
	"errors"
	"io"

	"github.com/stint-run/stint/internal/data/records"
)

// linesPiece is how many bytes of a range are looked at at once: so many stay in a processor's cache.
const linesPiece = 256 << 10

var lineEnd = []byte{'\n'}

// Lines are the items of a batch as lines, on their way to a filter: nobody takes them apart, or holds more than a
// piece of them.
type Lines struct {
	r     *Range
	in    io.Reader
	piece []byte
}

// errUnlike says that the items of a batch are not what was planned, or have to be taken apart.
var errUnlike = errors.New("the range does not hold the lines that were planned")

// Lines returns the batch's items as lines; nil if they do not lie so. None has been read
// before, and the Range gives none any more.
func (r *Range) Lines() *Lines {
	whole, ok := r.from.(*wholeSection)
	if !ok || !records.Lines(&r.source.Shape) {
		return nil
	}
	return &Lines{r: r, in: whole.in, piece: make([]byte, linesPiece)}
}

// Pass gives the lines to keep, some at once and each with its end, and the items that are not in their format to drop,
// each with its index in the batch, before any line behind it. Their bytes are valid during the call. It ends early,
// with that error, once ctx is done or drop returns one.
func (l *Lines) Pass(ctx context.Context, keep func(lines []byte), drop func(index int64, item records.Item, err error) error) error {
	sieve := records.NewSieve(l.r.source.Shape)
	var refused error
	lost := func(index int64, item records.Item, err error) {
		if refused == nil {
			refused = drop(index, item, err)
		}
	}
	held, base := 0, int64(0)
	for last := false; !last; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.ReadFull(l.in, l.piece[held:])
		if last = err == io.EOF || err == io.ErrUnexpectedEOF; err != nil && !last { // not errors.Is: a broken connection is no end
			return err
		}
		piece := l.piece[:held+n]
		passed := sieve.Sift(piece, last, func(from, to int) {
			if refused != nil {
				return
			}
			keep(piece[from:to])
			if last && piece[to-1] != '\n' { // the range's last line has no end
				keep(lineEnd)
			}
		}, func(index int64, item records.Item, err error) {
			item.Offset += base
			lost(index, item, err)
		})
		if refused != nil {
			return refused
		}
		base += int64(passed)
		held = copy(l.piece, piece[passed:])
		if held == len(l.piece) && !last {
			if held > sieve.Most() {
				return errUnlike // an item that is too long is seldom: it is found as usual
			}
			l.piece = append(l.piece, make([]byte, len(l.piece))...)
		}
	}
	if sieve.Items() != l.r.batch.Count {
		return errUnlike
	}
	return nil
}

// Done counts all items as done, which Pass has given.
func (l *Lines) Done() {
	r := l.r
	r.read, r.readTo = r.batch.Count, r.batch.Length
	r.count, r.length = r.batch.Count, r.batch.Length
}
