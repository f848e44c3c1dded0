package records

import (
	"bytes"

	"github.com/stint-run/stint/internal/wire"
)

// Sieve sorts the lines of a range, piece by piece. A filter gets lines as they are, but not blank lines of jsonl, and no
// items that are not in their format. A Sieve holds no bytes. It is for ranges whose
// items are lines: see [Lines].
type Sieve struct {
	shape  wire.Shape
	blanks bool
	max    int
	items  int64 // so far
}

// NewSieve returns a Sieve of a range that begins at an item boundary.
func NewSieve(s wire.Shape) *Sieve {
	return &Sieve{shape: s, blanks: TextLines(&s), max: maxItemOf(&s)}
}

// Items returns how many items there were so far.
func (s *Sieve) Items() int64 { return s.items }

// Most returns the length in bytes at which a piece has a line end, or an item that is too long.
func (s *Sieve) Most() int { return s.max + 1 }

// Sift looks at the lines that end in a piece, or, if it is the last one of the range, at all. It returns their length:
// what is behind them is the beginning of the next piece. keep gets each run of lines that a filter gets, drop each item
// that is not in its format: its index in the range, and the item, whose Offset is that in the piece, and whose bytes
// are the piece's. Both are called in the order of the lines.
func (s *Sieve) Sift(piece []byte, last bool, keep func(from, to int), drop func(index int64, item Item, err error)) int {
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
			keep(0, n)
		}
		return len(lines)
	}
	from := 0 // of the run
	for at := 0; at < len(lines); {
		end, next := len(lines), len(lines)
		if n := bytes.IndexByte(lines[at:], '\n'); n >= 0 {
			end, next = at+n, at+n+1
		}
		item := Item{Raw: lines[at:end:end], Offset: int64(at), Size: int64(end - at)}
		blank := !s.blanks && (at == end || lines[at] <= ' ' && IsBlank(item.Raw))
		var err error
		if !blank {
			err = s.check(&item)
			s.items++
		}
		if blank || err != nil {
			if at > from {
				keep(from, at)
			}
			from = next
		}
		if err != nil {
			drop(s.items-1, item, err)
		}
		at = next
	}
	if len(lines) > from {
		keep(from, len(lines))
	}
	return len(lines)
}

// check returns why an item is not in its format.
func (s *Sieve) check(item *Item) error {
	if len(item.Raw) > s.max {
		item.Err = invalid(overLimit, len(item.Raw), s.max)
		item.Raw = nil
	}
	return CheckLine(&s.shape, item)
}
