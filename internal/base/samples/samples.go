// Package samples keeps what a job was over its whole life in a few kilobytes: how many items were done, how long calls
// took and what went wrong, in spans of equal length. The spans become longer as the life does.
//
// A [Series] is for adding, a [Packed] for payloads. Spans begin at fixed moments (multiples of their length since
// 1970), so that those of a job's legs, and of its earlier runs, add up whatever their order: a span of a longer series
// consists of whole spans of a shorter one. All arithmetic is with integers, for workflows.
package samples

import (
	"cmp"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/base/calltimes"
)

const (
	// Most is the most samples of a series.
	Most = 200
	// MaxBytes is the most bytes of a [Packed]; as JSON these are 7 KB. A span takes 5 bytes and, if calls were
	// answered in it, some 15 for their times: 200 samples rarely take more than 4 KB. A series that would take more has
	// longer spans. A single span takes less than 600 bytes, so that there always are spans that fit.
	MaxBytes = 5 << 10

	shortest = 250 // length of a span at grain 0, in ms
	maxGrain = 40  // of it the length is doubled so often: 8,700 years
)

// The numbers of a [Counts]. Those before Expiries are items, which are done over time; the others are events.
const (
	OK = iota
	Failed
	Reused // of those that are OK
	Expiries
	Deaths
	Retries
	numbers
)

// Counts are numbers of items and events, by what they count.
type Counts [numbers]int64

// Point is what a job was at a moment of its life.
type Point struct {
	At time.Time
	// N are the items that were done by then, and the events since the point before.
	N Counts
	// Calls are those that were answered since the point before; nil: none was, or they are not known. They must not be
	// changed.
	Calls *calltimes.Timer
}

// Series adds up. Its zero value is empty. It is not safe for concurrent use.
type Series struct {
	grain       int    // spans are shortest << grain long
	before      Counts // items done at times that are not known
	spans       []span // those in which something was, the oldest first
	first, last int64  // when that began and ended, in ms since 1970
}

// span is what was from at*length to (at+1)*length.
type span struct {
	at    int64
	n     Counts
	calls *calltimes.Timer // nil: none. Spans share it, so it does not change.
}

// New returns an empty series whose spans are at least as long as those of another one (see [Packed.Grain]).
func New(grain int) *Series { return &Series{grain: max(0, min(grain, maxGrain))} }

// Empty reports whether nothing has been added.
func (s *Series) Empty() bool { return len(s.spans) == 0 && s.before == Counts{} }

func (s *Series) length() int64 { return shortest << s.grain }

func (s *Series) spanOf(ms int64) int64 { return max(0, ms) / s.length() }

// Add adds what was done from began to ended: items and calls evenly over that time, events at its end. Numbers below 0
// take back what was added last.
func (s *Series) Add(began, ended time.Time, n Counts, calls calltimes.Text) {
	var timer *calltimes.Timer
	if calls != "" {
		timer = calltimes.Parse(string(calls))
	}
	s.add(began, ended, n, timer)
}

func (s *Series) add(began, ended time.Time, n Counts, timer *calltimes.Timer) {
	s.takeBack(&n)
	if n == (Counts{}) && timer == nil {
		return
	}
	to := max(0, ended.UnixMilli())
	from := max(0, min(to, began.UnixMilli()))
	s.extend(from, to)
	for s.spanOf(to)-s.spanOf(from) > Most && s.grain < maxGrain {
		s.coarsen()
	}
	done := int64(0)                   // of whole
	final := s.spanOf(max(from, to-1)) // what ends with a span is in that one
	for at := s.spanOf(from); at <= final; at++ {
		share := int64(whole)
		if at < final {
			share = ((at+1)*s.length() - from) * whole / (to - from)
		}
		part := span{at: at, calls: timer.Part(done, share, whole)}
		for i, count := range n {
			switch {
			case i < Expiries:
				part.n[i] = count*share/whole - count*done/whole
			case at == final:
				part.n[i] = count
			}
		}
		done = share
		s.include(part)
	}
	s.thin()
}

// whole is what shares of time are parts of. A number of items times that is within 64 bits.
const whole = 1 << 16

// extend has the series last from one moment to another one.
func (s *Series) extend(from, to int64) {
	if len(s.spans) == 0 && s.last == 0 {
		s.first, s.last = from, to
	}
	s.first, s.last = min(s.first, from), max(s.last, to)
}

// include adds a span, unless nothing was in it.
func (s *Series) include(p span) {
	if p.n == (Counts{}) && p.calls == nil {
		return
	}
	i, found := len(s.spans), false
	if i > 0 && p.at <= s.spans[i-1].at { // most come in order
		i, found = slices.BinarySearchFunc(s.spans, p.at, func(s span, at int64) int { return cmp.Compare(s.at, at) })
	}
	if !found {
		s.spans = slices.Insert(s.spans, i, p)
		return
	}
	s.spans[i].add(p)
}

func (p *span) add(o span) {
	for i, count := range o.n {
		p.n[i] += count
	}
	p.calls = p.calls.Plus(o.calls)
}

// takeBack takes those of the numbers that are below 0 from what was added last, and sets them to 0.
func (s *Series) takeBack(n *Counts) {
	for i, count := range n {
		if count >= 0 {
			continue
		}
		n[i] = 0
		for j := range slices.Backward(s.spans) {
			taken := min(-count, s.spans[j].n[i])
			s.spans[j].n[i] -= taken
			count += taken
		}
		s.before[i] = max(0, s.before[i]+count)
	}
}

// Settle makes the items add up to these numbers: what is missing counts as done before the series begins, what is too
// much is taken back. at is when the series begins if it is empty.
func (s *Series) Settle(at time.Time, items Counts) {
	sum := s.Sum()
	var change Counts
	for i := range Expiries {
		change[i] = items[i] - sum[i]
	}
	s.takeBack(&change)
	for i, count := range change {
		s.before[i] += count
	}
	if len(s.spans) == 0 && s.last == 0 {
		s.first, s.last = at.UnixMilli(), at.UnixMilli()
	}
}

// Sum returns all that has been added.
func (s *Series) Sum() Counts {
	sum := s.before
	for _, p := range s.spans {
		for i, count := range p.n {
			sum[i] += count
		}
	}
	return sum
}

// Include adds another series. It may change the grain of both.
func (s *Series) Include(o *Series) {
	switch {
	case o.Empty():
		return
	case s.Empty():
		s.first, s.last = o.first, o.last
	default:
		s.first, s.last = min(s.first, o.first), max(s.last, o.last)
	}
	for s.grain < o.grain {
		s.coarsen()
	}
	for o.grain < s.grain {
		o.coarsen()
	}
	for i, count := range o.before {
		s.before[i] += count
	}
	for _, p := range o.spans {
		s.include(p)
	}
	s.thin()
}

// thin makes spans longer until there are not too many samples.
func (s *Series) thin() {
	for s.points() > Most && s.grain < maxGrain {
		s.coarsen()
	}
}

// points returns how many samples the series has.
func (s *Series) points() int {
	n := 1
	for i, p := range s.spans {
		if n++; i > 0 && p.at > s.spans[i-1].at+1 {
			n++
		}
	}
	return n
}

// coarsen doubles the length of the spans.
func (s *Series) coarsen() {
	s.grain++
	kept := s.spans[:0]
	for _, p := range s.spans {
		p.at /= 2
		if last := len(kept) - 1; last >= 0 && kept[last].at == p.at {
			kept[last].add(p)
			continue
		}
		kept = append(kept, p)
	}
	clear(s.spans[len(kept):])
	s.spans = kept
}

// Points returns the samples, at most [Most], the oldest first; none of an empty series. The first one is of its
// beginning. While nothing happens there are none, but for one at the end of that time.
func (s *Series) Points() []Point {
	if s.Empty() {
		return nil
	}
	sum := s.before
	here := func(ms int64) Point { return Point{At: time.UnixMilli(ms).UTC(), N: sum} }
	begin := s.first
	if len(s.spans) > 0 {
		begin = max(begin, s.spans[0].at*s.length()) // less than a whole item was done before
	}
	all := []Point{here(begin)}
	for i, p := range s.spans {
		if i > 0 && p.at > s.spans[i-1].at+1 {
			all = append(all, here(p.at*s.length()))
		}
		for i := range Expiries {
			sum[i] += p.n[i]
		}
		one := here(min(s.last, (p.at+1)*s.length()))
		copy(one.N[Expiries:], p.n[Expiries:])
		one.Calls = p.calls
		all = append(all, one)
	}
	return all
}

// Of returns the series of what [Series.Points] has returned.
func Of(all []Point) *Series {
	s := New(grainOf(all))
	for i, p := range all {
		if i == 0 {
			s.Settle(p.At, p.N)
			continue
		}
		before, n := all[i-1], p.N
		for kind := range Expiries {
			n[kind] -= before.N[kind]
		}
		to := p.At.Add(-time.Millisecond) // of the span: at its end the next one begins
		if to.Before(before.At) {
			to = before.At
		}
		s.add(before.At, to, n, p.Calls)
	}
	if len(all) > 0 {
		s.extend(all[0].At.UnixMilli(), all[len(all)-1].At.UnixMilli())
	}
	return s
}

// grainOf returns the grain of points: that of the longest distance between two of them, but for times in which nothing
// was.
func grainOf(all []Point) int {
	longest, grain := int64(0), 0
	for i := 1; i < len(all); i++ {
		a, b := all[i-1], all[i]
		if a.N[OK]+a.N[Failed] != b.N[OK]+b.N[Failed] || b.Calls != nil {
			longest = max(longest, b.At.Sub(a.At).Milliseconds())
		}
	}
	for ; shortest<<grain < longest && grain < maxGrain; grain++ {
	}
	return grain
}
