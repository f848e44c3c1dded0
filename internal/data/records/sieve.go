package records

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/stint-run/stint/internal/wire"
)

// Sieve looks at the lines of a range piece by piece, and tells those that a filter gets as they are from those that
// it does not: blank lines of jsonl, and items that are not in their format. It holds no more than a piece. It is for
// ranges whose items are lines: see [Lines].
type Sieve struct {
	shape   wire.Shape
	blanks  bool // a blank line is an item
	gapless bool // there are no blank lines
	sure    bool // items that are not too long are in their format
	max     int
	items   int64 // so far
}

// NewSieve returns a Sieve of a range that begins at an item boundary.
func NewSieve(s wire.Shape) *Sieve {
	return &Sieve{shape: s, blanks: TextLines(&s), max: maxItemOf(&s)}
}

// Sure has the Sieve take items for ones in their format, unless they are too long.
func (s *Sieve) Sure() *Sieve {
	s.sure = true
	return s
}

// NewGaplessSieve returns a Sieve of lines of any bytes, for which a blank line is [ErrUnlike].
func NewGaplessSieve(maxItem int) *Sieve {
	s := wire.Shape{Format: Text, MaxItem: maxItem}
	return &Sieve{shape: s, gapless: true, max: maxItemOf(&s)}
}

// ErrUnlike means that lines are not what was expected, or have to be taken apart: their items are to be read as usual.
var ErrUnlike = errors.New("the lines are not those that were expected")

// Keep gets lines that a filter gets, each with its end; Drop an item that is not in its format, its index in the range
// and why. What they get is valid during the call.
type (
	Keep func(lines []byte)
	Drop func(index int64, item Item, err error) error
)

// pieceSize is how many bytes Pass looks at at once: so many stay in a processor's cache.
const pieceSize = 256 << 10

// Pass gives the lines of r, in which there should be so many items, to keep, and items that are not in their format to
// drop, each in their order; an item is dropped before the lines behind it are kept. It ends early, with that error,
// once ctx is done or drop returns one.
func (s *Sieve) Pass(ctx context.Context, r io.Reader, items int64, keep Keep, drop Drop) error {
	return s.pass(ctx, r, items, keep, drop, make([]byte, pieceSize))
}

func (s *Sieve) pass(ctx context.Context, r io.Reader, items int64, keep Keep, drop Drop, buf []byte) error {
	held, base := 0, int64(0)
	for last := false; !last; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.ReadFull(r, buf[held:])
		last = err == io.EOF || err == io.ErrUnexpectedEOF // an error that wraps one of them is a broken connection
		if err != nil && !last {
			return err
		}
		piece := buf[:held+n]
		passed, err := s.sift(piece, last, func(lines []byte) {
			if lines[len(lines)-1] != '\n' { // the last line of all has no end, and nothing behind it is needed
				lines = append(lines, '\n')
			}
			keep(lines)
		}, func(index int64, item Item, err error) error {
			item.Offset += base
			return drop(index, item, err)
		})
		if err != nil {
			return err
		}
		base += int64(passed)
		held = copy(buf, piece[passed:])
		if held == len(buf) && !last {
			if held > s.max {
				return ErrUnlike // an item that is so much too long is seldom: it is found as usual
			}
			buf = append(buf, make([]byte, len(buf))...)
		}
	}
	if s.items != items {
		return ErrUnlike
	}
	return nil
}

// sift looks at the lines that end in a piece, or, if it is the last one, at all. It returns their length: what is
// behind them is the beginning of the next piece. Offsets of items are those in the piece. It moves the lines that are
// kept together, so that they are kept at once.
func (s *Sieve) sift(piece []byte, last bool, keep Keep, drop Drop) (length int, err error) {
	lines := piece
	if !last {
		lines = piece[:bytes.LastIndexByte(piece, '\n')+1]
	}
	if s.blanks && len(lines) <= s.max { // no line is too long, and none has to be looked at
		s.items += int64(bytes.Count(lines, newline))
		if n := len(lines); n > 0 {
			if lines[n-1] != '\n' {
				s.items++
			}
			keep(lines)
		}
		return len(lines), nil
	}
	kept, from := 0, 0 // the lines before kept are those that are kept; those from from on are looked at
	move := func(to int) {
		if kept == from {
			kept = to
		} else {
			kept += copy(lines[kept:], lines[from:to])
		}
	}
	for at := 0; at < len(lines); {
		end, next := len(lines), len(lines)
		if n := bytes.IndexByte(lines[at:], '\n'); n >= 0 {
			end, next = at+n, at+n+1
		}
		item := Item{Raw: lines[at:end:end], Offset: int64(at), Size: int64(end - at)}
		blank := !s.blanks && (at == end || lines[at] <= ' ' && IsBlank(item.Raw))
		if blank && s.gapless {
			return 0, ErrUnlike
		}
		var fault error
		if !blank {
			if !s.sure || end-at > s.max {
				fault = s.check(&item)
			}
			s.items++
		}
		if blank || fault != nil {
			move(at)
			from = next
		}
		if fault != nil {
			if err := drop(s.items-1, item, fault); err != nil {
				return 0, err
			}
		}
		at = next
	}
	if move(len(lines)); kept > 0 {
		keep(lines[:kept])
	}
	return len(lines), nil
}

// check returns why an item is not in its format.
func (s *Sieve) check(item *Item) error {
	if len(item.Raw) > s.max {
		item.Err = invalid(overLimit, len(item.Raw), s.max)
		item.Raw = nil
	}
	return CheckLine(&s.shape, item)
}
