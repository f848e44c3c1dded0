package tuning

import (
	"math"
	"time"
)

// use is how the slots' places are used: now, and summed up since the beginning.
type use struct {
	at       time.Time
	slots    int     // that have batches
	calls    int     // in hand
	occupied float64 // seconds of slots that had batches
	inHand   float64 // seconds of calls
}

func (u *use) advance(now time.Time) {
	if !u.at.IsZero() {
		seconds := now.Sub(u.at).Seconds()
		u.occupied += seconds * float64(u.slots)
		u.inHand += seconds * float64(u.calls)
	}
	u.at = now
}

// A limit is in use if this share of the places are, at least. Between two calls a place is not, and there may be too few
// items for all.
const inUse = 0.75

// overUse is how many calls for each place may be in hand when the measurement of a lower limit begins.
const overUse = 1.02

// window is a time in which one limit is measured, by the calls that begin in it.
type window struct {
	from  time.Time // when it began
	begin use       // as the places were in use; it is zero before
	calls int       // that have ended
	items float64
	spans spans
	// Sums over these calls.
	failed, took, tookTook, tookItems, itemsItems float64
	looked                                        int // calls at the last look
}

// open notes it once the limit's places are in use, and no more than they.
func (w *window) open(u use, limit int) {
	if places := float64(u.slots * limit); w.begin.at.IsZero() && u.slots > 0 && float64(u.calls) >= inUse*places && float64(u.calls) <= places*overUse {
		w.begin = u
	}
}

// began counts a call that begins now.
func (w *window) began(now time.Time) { w.spans.began(now.Sub(w.from).Seconds()) }

// ended counts a call that has ended. One that was cut has taken less time than it needs.
func (w *window) ended(now time.Time, c Call) {
	from := now.Sub(w.from) - c.Took
	if from < 0 {
		return
	}
	took, items := c.Took.Seconds(), float64(c.Items)
	w.spans.ended(from.Seconds(), took, !c.Cut)
	if c.Cut {
		return
	}
	w.calls++
	w.items += items
	w.failed += float64(c.Failed)
	w.took += took
	w.tookTook += took * took
	w.tookItems += took * items
	w.itemsItems += items * items
}

// call is how long a call takes on average, of those that have ended; 0: not known.
func (w *window) call() time.Duration {
	if w.calls == 0 {
		return 0
	}
	return time.Duration(w.took / float64(w.calls) * float64(time.Second))
}

// sample is what a window has shown.
type sample struct {
	limit  int
	rate   float64 // items a second of a slot; of items that have all failed it is 0.02 of that
	noise  float64 // standard error of rate's logarithm, as far as single calls differ
	failed float64 // share of the items
	calls  int     // that have ended
	rounds float64 // calls that could have been made in each place
	long   float64 // share of the calls that take longer than the window has been open
	call   time.Duration
}

// failedCount is what a failed item counts. Items that fail are no throughput, but a handler that fails for all
// of them should not make one call at a time.
const failedCount = 0.02

// sample returns what the window shows so far. It is not ok if that is too little, or no more than at the last look. The window begins anew if the places were not in use.
func (w *window) sample(u use, limit int) (s sample, ok bool) {
	places := float64(max(1, u.slots) * limit)
	if w.begin.at.IsZero() || w.calls < 3 || float64(w.calls) < places/2 || w.items == 0 || w.calls < w.looked+w.looked/8 {
		return s, false
	}
	w.looked = w.calls
	inHand, occupied := u.inHand-w.begin.inHand, u.occupied-w.begin.occupied
	if occupied <= 0 || inHand < inUse*occupied*float64(limit) {
		*w = window{from: u.at}
		return s, false
	}
	open := u.at.Sub(w.from).Seconds()
	call, long := w.spans.mean(open)
	call = max(call, 1e-9)
	s = sample{limit: limit, calls: w.calls, failed: w.failed / w.items, long: long, rounds: open / call, call: time.Duration(call * float64(time.Second))}
	s.rate = inHand / occupied / call * w.items / float64(w.calls) * (1 - (1-failedCount)*s.failed)
	item := w.took / w.items
	s.noise = math.Sqrt(max(0, w.tookTook-2*item*w.tookItems+item*item*w.itemsItems)) / max(w.took, 1e-9)
	s.noise *= 1 + 3/float64(w.calls) // so few do not show how much they differ
	return s, true
}

// verdict is whether the throughput grows with a power of the limit.
type verdict int

const (
	unsure verdict = iota
	grows
	stays
)

// certainty is the standard errors that a difference has if it is none by chance. They are more than usual, because it is looked for again and again.
const certainty = 2.5

// grew says whether the throughput has changed with this power of the limit, or a higher one, from another sample on.
// It is sure once the difference is some times the standard error.
func (s sample) grew(from sample, power float64) verdict {
	by := math.Log(float64(s.limit) / float64(from.limit))
	is, noise := math.Log(s.rate/from.rate)/by, math.Hypot(s.noise, from.noise)/math.Abs(by)
	switch {
	case is-certainty*noise >= power:
		return grows
	case is+certainty*noise < power:
		return stays
	}
	return unsure
}

// differs reports whether the throughput is another one than with the same limit before.
func (s sample) differs(from sample) bool {
	by := math.Abs(math.Log(s.rate / from.rate))
	return by > drift && by > 3*math.Hypot(s.noise, from.noise)
}

// spans are how long calls take that begin within a time, of which many have not ended at its end. The mean of those that have
// is too low: short calls end first. Kaplan and Meier's estimate takes the others for what they are, calls that take at
// least as long as they have. Begins and lengths are in as many columns, which get wider with time.
type spans struct {
	width   float64              // of a column, in seconds; 0: not known yet
	begun   [spanColumns]int     // calls in hand, by when they began
	count   [spanColumns]int     // those that have ended, by how long they took
	seconds [spanColumns]float64 // that those took
	cut     [spanColumns]int     // those that were cut off, likewise
}

const spanColumns = 128

// firstWidth is how wide columns are to begin with.
const firstWidth = 20e-6

// at is the column of a time, which is in one after this.
func (s *spans) at(seconds float64) int {
	if s.width == 0 {
		s.width = firstWidth
	}
	for seconds >= s.width*spanColumns {
		for i := range spanColumns / 2 {
			s.begun[i] = s.begun[2*i] + s.begun[2*i+1]
			s.count[i] = s.count[2*i] + s.count[2*i+1]
			s.seconds[i] = s.seconds[2*i] + s.seconds[2*i+1]
			s.cut[i] = s.cut[2*i] + s.cut[2*i+1]
		}
		clear(s.begun[spanColumns/2:])
		clear(s.count[spanColumns/2:])
		clear(s.seconds[spanColumns/2:])
		clear(s.cut[spanColumns/2:])
		s.width *= 2
	}
	return int(seconds / s.width)
}

func (s *spans) began(at float64) { s.begun[s.at(at)]++ }

// ended takes a call out that began at a time and took so long, to its end or not.
func (s *spans) ended(from, took float64, whole bool) {
	i := s.at(from)
	for ; i > 0 && s.begun[i] == 0; i-- { // clocks were read in between
	}
	s.begun[i] = max(0, s.begun[i]-1)
	if i = s.at(took); whole {
		s.count[i]++
		s.seconds[i] += took
	} else {
		s.cut[i]++
	}
}

// mean is how long a call takes, and which share of the calls takes longer than the time now. These are taken to go on as
// those before have: the mean of calls that end at random is right then, however few have.
func (s *spans) mean(now float64) (seconds, long float64) {
	last := s.at(now)
	atLeast, longer := [spanColumns + 1]int{}, 1.0 // calls that take as long as a column or longer
	for i := last; i >= 0; i-- {
		atLeast[i] = atLeast[i+1] + s.count[i] + s.cut[i] + s.begun[last-i]
	}
	for i := range last + 1 {
		if 10*atLeast[i] < atLeast[0] {
			now = float64(i) * s.width // too few show what comes later
			break
		}
		if s.count[i] > 0 {
			share := longer / float64(atLeast[i])
			seconds += share * s.seconds[i]
			longer -= share * float64(s.count[i])
		}
	}
	longer = max(0, longer)
	return (seconds + longer*now) / max(1-longer, 0.05), longer
}
