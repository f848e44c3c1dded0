package job

import (
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/limits"
	"github.com/stint-run/stint/internal/text"
)

// CallTimes says how long calls of the handler took: the longest one, and how many there were in each class of times,
// which double. "5203 10:3 12:9": the longest took 5,203 µs, 3 took 2¹⁰ µs to below 2¹¹, and 9 took 2¹² to below 2¹³.
// Empty: there were no calls. It is a text, so that it takes a few bytes in a history and can be compared.
type CallTimes string

// maxTimeClass is the last class: it begins at 12 days.
const maxTimeClass = 40

// CallTimer adds up how long calls took. Its zero value has no calls. It is not safe for concurrent use.
type CallTimer struct {
	counts  [maxTimeClass + 1]int64
	longest int64 // µs
}

// Add adds a call.
func (t *CallTimer) Add(took time.Duration) {
	us := max(0, took.Microseconds())
	t.counts[min(max(0, bits.Len64(uint64(us))-1), maxTimeClass)]++
	t.longest = max(t.longest, us)
}

// Include adds the calls of another one.
func (t *CallTimer) Include(o *CallTimer) {
	for class, n := range o.counts {
		t.counts[class] += n
	}
	t.longest = max(t.longest, o.longest)
}

// Times returns what has been added so far.
func (t *CallTimer) Times() CallTimes {
	b := strconv.AppendInt(nil, t.longest, 10)
	some := false
	for class, n := range t.counts {
		if n == 0 {
			continue
		}
		some = true
		b = strconv.AppendInt(append(b, ' '), int64(class), 10)
		b = strconv.AppendInt(append(b, ':'), n, 10)
	}
	if !some {
		return ""
	}
	return CallTimes(b)
}

// timer reads the text. It ignores invalid parts.
func (c CallTimes) timer() (t CallTimer) {
	longest, classes, _ := strings.Cut(string(c), " ")
	t.longest, _ = strconv.ParseInt(longest, 10, 64)
	for word := range strings.FieldsSeq(classes) {
		name, number, _ := strings.Cut(word, ":")
		class, err := strconv.Atoi(name)
		n, err2 := strconv.ParseInt(number, 10, 64)
		if err == nil && err2 == nil && class >= 0 && class <= maxTimeClass {
			t.counts[class] += n
		}
	}
	return t
}

// Plus returns the times of the calls of both.
func (c CallTimes) Plus(o CallTimes) CallTimes {
	if c == "" || o == "" {
		return c + o
	}
	sum, other := c.timer(), o.timer()
	sum.Include(&other)
	return sum.Times()
}

// Longest returns how long the longest call took; 0 if there was none.
func (c CallTimes) Longest() time.Duration {
	return time.Duration(c.timer().longest) * time.Microsecond
}

// Percentile returns about how long p percent of the calls, 1 to 100, took at most: it interpolates within a class. It
// is never more than [CallTimes.Longest], and 0 if there was no call.
func (c CallTimes) Percentile(p int) time.Duration {
	t := c.timer()
	if p >= 100 {
		return c.Longest()
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

// Noticed is what reading a job's inputs has shown that is no error, and that a person should know.
type Noticed struct {
	// Blank is how many blank lines of jsonl and csv were read, which are no items. Those of batches that earlier runs
	// have done do not count.
	Blank int64 `json:"blank,omitempty"`
	// Notes are sentences about single inputs, at most 10 of them.
	Notes []string `json:"notes,omitempty"`
}

// maxNote bounds a note, in bytes as JSON.
const maxNote = 1000

// Add adds what was noticed later.
func (n *Noticed) Add(later Noticed) {
	n.Blank += later.Blank
	for _, note := range later.Notes {
		n.Note(note)
	}
}

// Note adds a note, unless it is there already or there are too many.
func (n *Noticed) Note(note string) {
	note = text.Fit(note, maxNote)
	if len(n.Notes) < limits.MaxNotes && !slices.Contains(n.Notes, note) {
		n.Notes = append(n.Notes, note)
	}
}

// Totals returns the totals that a leg has reported.
func (c Counted) Totals() Totals {
	return Totals{OK: c.OK, Failed: c.Failed, Dropped: c.Dropped, Batches: c.Batches, InputBytes: c.Bytes}
}
