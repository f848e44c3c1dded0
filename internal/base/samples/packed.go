package samples

import (
	"encoding/binary"
	"time"

	"github.com/stint-run/stint/internal/base/calltimes"
)

// Packed is a series as it travels: at most [MaxBytes]. Nil is an empty one.
//
// It has unsigned numbers of variable length: the grain, when it begins, how long it lasts in ms, the items before, and
// then for each span its distance from the one before, a mask of what is not 0, and that.
type Packed []byte

// hasCalls is the bit of a span's mask that says that calls follow.
const hasCalls = 1 << numbers

// Pack returns the series packed. If that would be too large, the packed one has longer spans. The series stays as it is:
// queries of workflows pack it, too.
func (s *Series) Pack() Packed {
	if s.Empty() {
		return nil
	}
	p := s.packed()
	for len(p) > MaxBytes {
		coarser := p.Series()
		coarser.coarsen()
		p = coarser.packed()
	}
	return p
}

func (s *Series) packed() Packed {
	b := append([]byte{}, byte(s.grain))
	b = binary.AppendUvarint(b, uint64(s.first))
	b = binary.AppendUvarint(b, uint64(s.last-s.first))
	for i := range Expiries {
		b = binary.AppendUvarint(b, uint64(s.before[i]))
	}
	at := int64(0)
	for _, p := range s.spans {
		b = binary.AppendUvarint(b, uint64(p.at-at))
		at = p.at
		mask := 0
		for i, count := range p.n {
			if count != 0 {
				mask |= 1 << i
			}
		}
		if p.calls != nil {
			mask |= hasCalls
		}
		b = append(b, byte(mask))
		for _, count := range p.n {
			if count != 0 {
				b = binary.AppendUvarint(b, uint64(count))
			}
		}
		b = p.calls.AppendTo(b)
	}
	return b
}

// Series unpacks it. What is not in the form of [Series.Pack] ends it.
func (p Packed) Series() *Series {
	r := reader{rest: p}
	s := New(int(r.byte()))
	if len(p) == 0 {
		return s
	}
	s.first = r.number()
	s.last = s.first + r.number()
	for i := range Expiries {
		s.before[i] = r.number()
	}
	for at := int64(0); len(r.rest) > 0; {
		one := span{at: at + r.number()}
		mask := int(r.byte())
		for i := range one.n {
			if mask&(1<<i) != 0 {
				one.n[i] = r.number()
			}
		}
		if mask&hasCalls != 0 {
			one.calls, r.rest = calltimes.Read(r.rest)
		}
		at = one.at
		s.include(one)
	}
	return s
}

// reader takes numbers out of bytes; 0 if there are none.
type reader struct{ rest []byte }

func (r *reader) byte() (b byte) {
	if len(r.rest) > 0 {
		b, r.rest = r.rest[0], r.rest[1:]
	}
	return b
}

func (r *reader) number() int64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > 1<<62 {
		r.rest = nil
		return 0
	}
	r.rest = r.rest[size:]
	return int64(n)
}

// Plus returns both together.
func (p Packed) Plus(o Packed) Packed {
	switch {
	case len(o) == 0:
		return p
	case len(p) == 0:
		return o
	}
	sum := p.Series()
	sum.Include(o.Series())
	return sum.Pack()
}

// Settled returns it settled: see [Series.Settle].
func (p Packed) Settled(at time.Time, items Counts) Packed {
	s := p.Series()
	s.Settle(at, items)
	return s.Pack()
}

// Grain returns what [New] takes to make spans of the same length.
func (p Packed) Grain() int {
	if len(p) == 0 {
		return 0
	}
	return int(p[0])
}
