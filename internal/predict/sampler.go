package predict

import (
	"fmt"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/job"
)

// Sample is the result of trying some of a job's items. Their results are thrown away.
type Sample struct {
	Items       int             `json:"items"`
	OK          int64           `json:"ok"` // dropped ones included
	Failed      int64           `json:"failed"`
	Dropped     int64           `json:"dropped"`
	Bytes       int64           `json:"bytes"`        // of the items, as the handler got them
	ResultBytes int64           `json:"result_bytes"` // of their results
	Calls       int             `json:"calls"`        // that were answered
	FailedCalls int             `json:"failed_calls"`
	SlowDowns   int             `json:"slow_downs"` // requests of the handler, which were waited out
	FirstError  *job.FirstError `json:"first_error,omitempty"`
	Took        time.Duration   `json:"took"` // nanoseconds, from the first call to the last
	Usage       job.Usage       `json:"usage,omitzero"`

	timed  []timing
	failed time.Duration // in calls that failed
}

// timing is how long a call that was answered took.
type timing struct {
	items int
	took  time.Duration
}

// Sampler is the [calls.Sampler] of one pool: it has calls of single items and large ones alternate, and times them.
type Sampler struct {
	// Setup describes the pool's workers. Ready is set once they can be called.
	Setup Setup
	// GiveUp is called if the handler does nothing but ask for less work. Required.
	GiveUp func(error)

	handler calls.Handler // of the pool

	mu            sync.Mutex
	single, large int              // calls that have begun
	items, bytes  int64            // in them
	idle          int              // slow-down requests in a row, without an item's outcome in between
	stages        map[string]*span // by name; "" in a job without
}

// span is what the calls of a stage have shown.
type span struct {
	Sample
	began, ended time.Time
}

// Open implements [calls.Sampler].
func (s *Sampler) Open(h calls.Handler, o calls.Observer) (calls.Handler, calls.Observer) {
	s.handler = h
	return &alternating{h, s}, &timekeeper{o, s}
}

// Ready implements [calls.Sampler].
func (s *Sampler) Ready(after time.Duration) { s.Setup.Ready = after }

// alternating is a handler whose calls have one item, and as many as it takes, in turn.
type alternating struct {
	calls.Handler
	of *Sampler
}

func (h *alternating) CallSize() calls.CallSize {
	size := h.Handler.CallSize()
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	if h.of.single <= h.of.large {
		size.Items = 1
	}
	return size
}

func (h *alternating) Call(c *calls.Call) error {
	h.of.begun(c)
	return h.Handler.Call(c)
}

func (s *Sampler) begun(c *calls.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items += int64(len(c.Items))
	for i := range c.Items {
		s.bytes += int64(len(c.Items[i].Data))
	}
	switch {
	case c.Isolating:
	case len(c.Items) == 1:
		s.single++
	default:
		s.large++
	}
}

// maxIdle is how many slow-down requests in a row, without an item's outcome in between, are waited out.
const maxIdle = 20

// timekeeper notes what calls take.
type timekeeper struct {
	calls.Observer
	of *Sampler
}

func (k *timekeeper) CallEnded(c calls.CallStats) {
	k.Observer.CallEnded(c)
	k.of.ended(c)
}

func (s *Sampler) ended(c calls.CallStats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.stages[c.Stage]
	now := time.Now()
	if at == nil {
		at = &span{began: now.Add(-c.Took)}
		if s.stages == nil {
			s.stages = map[string]*span{}
		}
		s.stages[c.Stage] = at
	}
	at.ended = now
	if began := now.Add(-c.Took); began.Before(at.began) {
		at.began = began
	}
	if c.Items > 0 {
		s.idle = 0
	}
	if c.Refused {
		at.SlowDowns++
		if c.Items == 0 {
			s.idle++
		}
		if s.idle == maxIdle {
			s.GiveUp(fmt.Errorf(
				"the handler has asked %d times in a row for less work, and answered nothing: try fewer slots, or later", maxIdle))
		}
	}
	switch {
	case c.Cut:
	case c.Fault != "":
		at.FailedCalls++
		at.failed += c.Took
	case c.Items > 0:
		at.Calls++
		at.timed = append(at.timed, timing{c.Items, c.Took})
	}
}

// of returns what the calls of a stage have shown, and when the first one began and the last one ended.
func (s *Sampler) of(stage string) (Sample, time.Time, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.stages[stage]
	if at == nil {
		return Sample{}, time.Time{}, time.Time{}
	}
	sample := at.Sample
	sample.Took = at.ended.Sub(at.began)
	// The first call of each slot warms up.
	sample.timed = sample.timed[min(s.Setup.Slots, len(sample.timed)/coldPart):]
	return sample, at.began, at.ended
}

// coldPart: no more than this part of the calls count as those that warm up.
const coldPart = 4

// bytesOf is about how many bytes so many items have as the handler gets them.
func (s *Sampler) bytesOf(items int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes * items / max(1, s.items)
}

// concluded adds what has become of the sample's items: of all, unless the small job has ended because nothing works.
func (d *Drawn) concluded(s Sample, report job.Report, resultBytes int64) Sample {
	s.OK, s.Dropped, s.ResultBytes = report.OK, report.Dropped, resultBytes
	s.Failed, s.FirstError = d.sample.Failed+report.Failed, d.sample.FirstError
	s.Items, s.Usage = int(s.OK+s.Failed), report.Spent()
	if e := report.FirstError; e != nil {
		first := *e
		first.Item = d.ordinals[e.Item]
		s.FirstError = s.FirstError.First(&first)
	}
	return s
}

// Predict extrapolates from the small job, which has ended, to the whole one. resultBytes are those of its results, s
// is the sampler of its pool.
func (d *Drawn) Predict(report job.Report, resultBytes int64, s *Sampler) Prediction {
	sample, _, _ := s.of("")
	sample = d.concluded(sample, report, resultBytes)
	sample.Bytes = s.bytesOf(int64(sample.Items))
	return Predict(d.survey, sample, s.handler, d.spec, s.Setup)
}
