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
	// MaxBytes is the most bytes of a [Packed]; as JSON these are 8 KB. A span takes 5 bytes and, if calls were
	// answered in it, some 20 for their times: 200 samples rarely take more than 5 KB. A series that does has longer
	// spans. A single span takes less than 600 bytes, so that there always are spans that fit.
	MaxBytes = 6 << 10

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

// Sample is what a job was at a moment of its life.
//
// The first sample of a job is of its beginning; what was done at times that are not known counts there. A resumed job
// has those of the runs before, too, so that the first ones are older than its start. While nothing happens there are no
// samples but for one at the end of that time.
type Sample struct {
	At     time.Time `json:"at"`
	OK     int64     `json:"ok"`               // items with a result by then
	Failed int64     `json:"failed,omitempty"` // items with an error by then
	Reused int64     `json:"reused,omitempty"` // of those that are OK, those with the result of an earlier run
	// P50, P95 and Max are how long the calls took that were answered since the sample before, in nanoseconds; 0: none
	// was.
	P50 time.Duration `json:"p50_ns,omitempty"`
	P95 time.Duration `json:"p95_ns,omitempty"`
	Max time.Duration `json:"max_ns,omitempty"`
	// Since the sample before:
	Expiries int64 `json:"expiries,omitempty"` // timers that expired
	Deaths   int64 `json:"deaths,omitempty"`   // processes that ended in the middle of a call
	Retries  int64 `json:"retries,omitempty"`  // calls and batches that were retried

	calls *calltimes.Timer // what P50, P95 and Max are of; nil: not known, or none
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
	s.takeBack(&n)
	if n == (Counts{}) && calls == "" {
		return
	}
	to := max(0, ended.UnixMilli())
	from := max(0, min(to, began.UnixMilli()))
	s.extend(from, to)
	for s.spanOf(to)-s.spanOf(from) > Most && s.grain < maxGrain {
		s.coarsen()
	}
	var timer *calltimes.Timer
	if calls != "" {
		timer = calltimes.Parse(string(calls))
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

// Samples returns the samples, at most [Most], the oldest first; none of an empty series.
func (s *Series) Samples() []Sample {
	if s.Empty() {
		return nil
	}
	sum := s.before
	here := func(ms int64) Sample {
		return Sample{At: time.UnixMilli(ms).UTC(), OK: sum[OK], Failed: sum[Failed], Reused: sum[Reused]}
	}
	begin := s.first
	if len(s.spans) > 0 {
		begin = max(begin, s.spans[0].at*s.length()) // less than a whole item was done before
	}
	all := []Sample{here(begin)}
	for i, p := range s.spans {
		if i > 0 && p.at > s.spans[i-1].at+1 {
			all = append(all, here(p.at*s.length())) // nothing was since the sample before
		}
		for i, count := range p.n {
			sum[i] += count
		}
		one := here(min(s.last, (p.at+1)*s.length()))
		one.Expiries, one.Deaths, one.Retries = p.n[Expiries], p.n[Deaths], p.n[Retries]
		if one.calls = p.calls; p.calls != nil {
			one.P50, one.P95, one.Max = p.calls.Percentile(50), p.calls.Percentile(95), p.calls.Longest()
		}
		all = append(all, one)
	}
	return all
}

// Of returns the series of samples that [Series.Samples] has returned. Of others, as they are read from JSON, it does
// not have the times of calls.
func Of(all []Sample) *Series {
	s := New(grainOf(all))
	for i, one := range all {
		n := Counts{OK: one.OK, Failed: one.Failed, Reused: one.Reused}
		if i == 0 {
			s.Settle(one.At, n)
			continue
		}
		before := all[i-1]
		n[OK], n[Failed], n[Reused] = n[OK]-before.OK, n[Failed]-before.Failed, n[Reused]-before.Reused
		n[Expiries], n[Deaths], n[Retries] = one.Expiries, one.Deaths, one.Retries
		calls := ""
		if one.calls != nil {
			calls = one.calls.String()
		}
		begin := before.At
		if end := one.At.Add(-time.Millisecond); end.After(begin) { // of the span: at its end the next one begins
			s.Add(begin, end, n, calltimes.Text(calls))
			continue
		}
		s.Add(begin, begin, n, calltimes.Text(calls))
	}
	if len(all) > 0 {
		s.extend(all[0].At.UnixMilli(), all[len(all)-1].At.UnixMilli())
	}
	return s
}

// grainOf returns the grain of samples: that of the longest distance between two of them but for times in which nothing
// was.
func grainOf(all []Sample) int {
	longest, grain := int64(0), 0
	for i := 1; i < len(all); i++ {
		a, b := all[i-1], all[i]
		if a.OK+a.Failed != b.OK+b.Failed || b.calls != nil {
			longest = max(longest, b.At.Sub(a.At).Milliseconds())
		}
	}
	for ; shortest<<grain < longest && grain < maxGrain; grain++ {
	}
	return grain
}
