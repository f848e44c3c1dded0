package tuning

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"time"
)

// service is what the simulated handler calls.
type service interface {
	// begin takes a call. It returns when the call ends, or a refusal, or false if that is not known yet.
	begin(now float64, c *simCall) (end float64, known bool)
	// next returns when the next call ends of those of which that was not known, if there are any.
	next(now float64) (end float64, c *simCall)
	// ended is called at that time.
	ended(now float64, c *simCall)
}

// simCall is a call under way. Times are seconds.
type simCall struct {
	slot       int
	began, end float64
	refused    bool
	failed     bool
}

type callHeap []*simCall

func (h callHeap) Len() int           { return len(h) }
func (h callHeap) Less(i, j int) bool { return h[i].end < h[j].end }
func (h callHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *callHeap) Push(x any)        { *h = append(*h, x.(*simCall)) }
func (h *callHeap) Pop() any {
	old := *h
	c := old[len(old)-1]
	*h = old[:len(old)-1]
	return c
}

// nothingOpen is for services that know at once when a call ends.
type nothingOpen struct{}

func (nothingOpen) next(float64) (float64, *simCall) { return math.Inf(1), nil }
func (nothingOpen) ended(float64, *simCall)          {}

// waits is a service without limits.
type waits struct {
	nothingOpen
	takes func(now float64) float64
}

func (s waits) begin(now float64, _ *simCall) (float64, bool) { return now + s.takes(now), true }

// refuses is a service that refuses more than so many calls at once.
type refuses struct {
	waits
	most   int
	inHand int
}

func (s *refuses) begin(now float64, c *simCall) (float64, bool) {
	if s.inHand >= s.most {
		c.refused = true
		return now + 0.002, true
	}
	s.inHand++
	return now + s.takes(now), true
}

func (s *refuses) ended(_ float64, c *simCall) {
	if !c.refused {
		s.inHand--
	}
}

// queues is a service of so many servers with a queue.
type queues struct {
	nothingOpen
	servers func(now float64) int
	takes   func(now float64) float64
	limit   float64 // the call expires after this time; 0: never
	free    []float64
}

func (s *queues) begin(now float64, c *simCall) (float64, bool) {
	for n := s.servers(now); len(s.free) != n; {
		if len(s.free) < n {
			s.free = append(s.free, now)
		} else {
			s.free = s.free[:n]
		}
	}
	first := 0
	for i, at := range s.free {
		if at < s.free[first] {
			first = i
		}
	}
	s.free[first] = max(now, s.free[first]) + s.takes(now)
	if end := s.free[first]; s.limit == 0 || end-now < s.limit {
		return end, true
	}
	c.failed = true
	return now + s.limit, true
}

// shares is processors that are shared by all calls.
type shares struct {
	processors float64
	takes      func(now float64) float64
	at, done   float64  // how far a call has got that has been in hand from the beginning
	open       callHeap // by done
}

func (s *shares) advance(now float64) {
	if n := float64(len(s.open)); n > 0 {
		s.done += (now - s.at) * min(1, s.processors/n)
	}
	s.at = now
}

func (s *shares) begin(now float64, c *simCall) (float64, bool) {
	s.advance(now)
	c.end = s.done + s.takes(now)
	heap.Push(&s.open, c)
	return 0, false
}

func (s *shares) next(now float64) (float64, *simCall) {
	if len(s.open) == 0 {
		return math.Inf(1), nil
	}
	s.advance(now)
	return now + (s.open[0].end-s.done)*max(1, float64(len(s.open))/s.processors), s.open[0]
}

func (s *shares) ended(now float64, _ *simCall) {
	s.advance(now)
	heap.Pop(&s.open)
}

// simulation runs items through slots that make as many calls at once as a limit says.
type simulation struct {
	slots   int
	pause   float64 // nothing is begun for this time after a slow-down request
	service service
	tuner   *Tuner // nil: fixed
	fixed   int
	until   float64 // it is given up at this time

	now    float64
	busy   []int
	events callHeap
	limits []int // as they were, one after the other
}

// clock is the simulation's time.
func (s *simulation) clock() time.Time {
	return time.Unix(1_700_000_000, 0).Add(time.Duration(s.now * float64(time.Second)))
}

func (s *simulation) limit() int {
	if s.tuner == nil {
		return s.fixed
	}
	return s.tuner.Limit()
}

// run returns how long so many items take, in seconds.
func (s *simulation) run(items int) float64 {
	s.busy = make([]int, s.slots)
	if s.tuner != nil {
		s.tuner.Occupied(s.slots)
	}
	begun, done, quiet := 0, 0, 0.0
	fill := func(slot int) {
		for s.now >= quiet && begun < items && s.busy[slot] < s.limit() {
			begun++
			s.begin(slot)
		}
	}
	all := func() {
		for slot := range s.busy {
			fill(slot)
		}
	}
	all()
	for done < items && s.now < s.until {
		c := s.nextEnd(quiet)
		if c == nil { // the pause ends before
			all()
			continue
		}
		s.busy[c.slot]--
		call := Call{Took: time.Duration((s.now - c.began) * float64(time.Second)), Items: 1}
		switch {
		case c.failed:
			call.Failed = 1
			begun--
		case c.refused:
			call.Items, call.SlowDown = 0, true
			begun--
			quiet = max(quiet, s.now+s.pause)
		default:
			done++
		}
		if s.tuner != nil && s.tuner.Ended(call) {
			s.limits = append(s.limits, s.tuner.Limit())
			all()
		}
		fill(c.slot)
	}
	return s.now
}

// nextEnd goes to the end of the next call; nil: to the end of the pause, which is earlier.
func (s *simulation) nextEnd(quiet float64) *simCall {
	end, c := s.service.next(s.now)
	first := len(s.events) > 0 && s.events[0].end <= end
	if first {
		c = s.events[0]
		end = c.end
	}
	if s.now < quiet && quiet <= end {
		s.now = quiet
		return nil
	}
	s.now = end
	if first {
		heap.Pop(&s.events)
	}
	s.service.ended(s.now, c)
	return c
}

func (s *simulation) begin(slot int) {
	c := &simCall{slot: slot, began: s.now}
	s.busy[slot]++
	if s.tuner != nil {
		s.tuner.Began()
	}
	if end, known := s.service.begin(s.now, c); known {
		c.end = end
		heap.Push(&s.events, c)
	}
}

// Distributions of how long a call takes.

func always(seconds float64) func(float64) float64 {
	return func(float64) float64 { return seconds }
}

func exponential(r *rand.Rand, mean float64) func(float64) float64 {
	return func(float64) float64 { return mean * r.ExpFloat64() }
}

// heavy is log-normal with a standard deviation of about the mean.
func heavy(r *rand.Rand, mean float64) func(float64) float64 {
	const sigma = 0.83
	return func(float64) float64 { return mean * math.Exp(sigma*r.NormFloat64()-sigma*sigma/2) }
}

func bimodal(r *rand.Rand, quick, slow, share float64) func(float64) float64 {
	return func(float64) float64 {
		if r.Float64() < share {
			return slow
		}
		return quick
	}
}

// changing changes over from one to another at some time.
func changing[T any](at float64, before, after func(float64) T) func(float64) T {
	return func(now float64) T {
		if now < at {
			return before(now)
		}
		return after(now)
	}
}
