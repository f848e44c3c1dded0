// Package calltimes adds up how long calls of a handler took, in a few bytes: how many there were in each class of
// times, which double.
package calltimes

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// maxClass is the last class: it begins at 12 days.
const maxClass = 40

// Timer adds up how long calls took. Its zero value has no calls. It is not safe for concurrent use.
type Timer struct {
	counts  [maxClass + 1]int64 // of the calls that took 2ⁱ to below 2ⁱ⁺¹ µs
	longest int64               // µs
}

// Add adds a call.
func (t *Timer) Add(took time.Duration) {
	us := max(0, took.Microseconds())
	t.counts[min(max(0, bits.Len64(uint64(us))-1), maxClass)]++
	t.longest = max(t.longest, us)
}

// Include adds the calls of another one.
func (t *Timer) Include(o *Timer) {
	for class, n := range o.counts {
		t.counts[class] += n
	}
	t.longest = max(t.longest, o.longest)
}

// String returns what has been added so far: the longest time in microseconds, and each class that has calls with their
// number, such as "5203 10:3 12:9". It is "" if there were none.
func (t *Timer) String() string {
	var b []byte
	for class, n := range t.counts {
		if n > 0 {
			b = fmt.Appendf(b, " %d:%d", class, n)
		}
	}
	if b == nil {
		return ""
	}
	return strconv.FormatInt(t.longest, 10) + string(b)
}

// Parse reads what [Timer.String] has written. It ignores invalid parts.
func Parse(text string) *Timer {
	t := &Timer{}
	longest, classes, _ := strings.Cut(text, " ")
	t.longest, _ = strconv.ParseInt(longest, 10, 64)
	for word := range strings.FieldsSeq(classes) {
		name, number, _ := strings.Cut(word, ":")
		class, err := strconv.Atoi(name)
		n, err2 := strconv.ParseInt(number, 10, 64)
		if err == nil && err2 == nil && class >= 0 && class <= maxClass {
			t.counts[class] += n
		}
	}
	return t
}

// Plus returns the calls of both; either may be nil, which has none.
func (t *Timer) Plus(o *Timer) *Timer {
	if t == nil || o == nil {
		return cmp.Or(t, o)
	}
	sum := *t
	sum.Include(o)
	return &sum
}

// Part returns the calls between two shares of the whole if those of each class come evenly one after the other, so that
// the parts of adjacent shares add up. It returns nil if there are none, or t is nil. The longest call is in every part
// that has one of its class.
func (t *Timer) Part(from, to, whole int64) *Timer {
	if t == nil {
		return nil
	}
	part, last := &Timer{}, -1
	for class, n := range t.counts {
		if part.counts[class] = n*to/whole - n*from/whole; part.counts[class] > 0 {
			last = class
		}
	}
	if last < 0 {
		return nil
	}
	part.longest = t.longest
	if last < maxClass {
		part.longest = min(t.longest, int64(1)<<(last+1)-1)
	}
	return part
}

// AppendTo appends the calls in a form that takes few bytes: the longest time in microseconds, a mask of the classes
// that have calls, and how many each of them has. A nil timer appends nothing.
func (t *Timer) AppendTo(b []byte) []byte {
	if t == nil {
		return b
	}
	b = binary.AppendUvarint(b, uint64(t.longest))
	mask := uint64(0)
	for class, n := range t.counts {
		if n > 0 {
			mask |= 1 << class
		}
	}
	b = binary.AppendUvarint(b, mask)
	for _, n := range t.counts {
		if n > 0 {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	return b
}

// Read reads what [Timer.AppendTo] has appended, and returns what follows. It returns nothing more after an error.
func Read(b []byte) (t *Timer, rest []byte) {
	t = &Timer{}
	number := func() int64 {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > 1<<62 {
			b = nil
			return 0
		}
		b = b[size:]
		return int64(n)
	}
	t.longest = number()
	mask := number()
	for class := range t.counts {
		if mask&(1<<class) != 0 {
			t.counts[class] = number()
		}
	}
	return t, b
}

// Longest returns how long the longest call took; 0 if there was none.
func (t *Timer) Longest() time.Duration { return time.Duration(t.longest) * time.Microsecond }

// Percentile returns about how long p percent of the calls, 1 to 100, took at most: it interpolates within a class. It
// is never more than [Timer.Longest], and 0 if there was no call.
func (t *Timer) Percentile(p int) time.Duration {
	if p >= 100 {
		return t.Longest()
	}
	total := int64(0)
	for _, n := range t.counts {
		total += n
	}
	rank := (total/100)*int64(p) + (total%100*int64(p)+99)/100
	for class, n := range t.counts {
		if rank > n || n == 0 {
			rank -= n
			continue
		}
		low, high := int64(1)<<class, min(int64(1)<<(class+1), max(t.longest, int64(1)<<class))
		over, product := bits.Mul64(uint64(high-low), uint64(2*rank-1))
		share, _ := bits.Div64(over, product, uint64(2*n)) // rank is n at most
		return time.Duration(min(t.longest, low+int64(share))) * time.Microsecond
	}
	return 0
}

// Text says how long calls of the handler took: the longest one, and how many there were in each class of times,
// which double. "5203 10:3 12:9": the longest took 5,203 µs, 3 took 2¹⁰ µs to below 2¹¹, and 9 took 2¹² to below 2¹³.
// Empty: there were no calls. It is a text, so that it takes a few bytes in a history and can be compared.
type Text string

// Plus returns the times of the calls of both.
func (c Text) Plus(o Text) Text {
	if c == "" || o == "" {
		return c + o
	}
	sum := Parse(string(c))
	sum.Include(Parse(string(o)))
	return Text(sum.String())
}

// Longest returns how long the longest call took; 0 if there was none.
func (c Text) Longest() time.Duration { return Parse(string(c)).Longest() }

// Percentile returns about how long p percent of the calls, 1 to 100, took at most: it interpolates within a class. It
// is never more than [Text.Longest], and 0 if there was no call.
func (c Text) Percentile(p int) time.Duration { return Parse(string(c)).Percentile(p) }
