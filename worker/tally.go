package worker

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-run/stint/internal/meters"
)

// Counts are a worker's counts of one job, or of all of them together. Work that it has done twice,
// because an execution of a batch was lost, counts twice.
type Counts struct {
	OK      int64 `json:"ok"`      // items with a result, dropped ones included
	Failed  int64 `json:"failed"`  // items with an error
	Dropped int64 `json:"dropped"` // items for which the handler returned no result

	Batches       int64 `json:"batches"`        // executions of batches that have ended
	FailedBatches int64 `json:"failed_batches"` // those that have failed

	Calls       int64         `json:"calls"`        // calls of the handler that have ended
	FailedCalls int64         `json:"failed_calls"` // those that have failed as a whole
	CallTime    time.Duration `json:"call_time"`    // of all calls together, in nanoseconds

	Retries    int64 `json:"retries"`    // calls that were retried
	Expiries   int64 `json:"expiries"`   // calls and items that took longer than one of their timers
	Isolations int64 `json:"isolations"` // calls halved to find the item that makes them fail

	Sizes CallSizes `json:"sizes"`
}

// CallSizes are about the calls that were answered: those with an outcome for one item or more.
type CallSizes struct {
	Calls    int64 `json:"calls"`
	Items    int64 `json:"items"`    // in all of them
	Smallest int64 `json:"smallest"` // items of the smallest call; 0: there was none
	Largest  int64 `json:"largest"`  // items of the largest call
}

// Mean is the mean number of items of a call, 0 if there was none.
func (s CallSizes) Mean() float64 {
	if s.Calls == 0 {
		return 0
	}
	return float64(s.Items) / float64(s.Calls)
}

func (s *CallSizes) add(o CallSizes) {
	if o.Calls > 0 && (s.Calls == 0 || o.Smallest < s.Smallest) {
		s.Smallest = o.Smallest
	}
	s.Largest = max(s.Largest, o.Largest)
	s.Calls += o.Calls
	s.Items += o.Items
}

func (c *Counts) add(o Counts) {
	c.OK += o.OK
	c.Failed += o.Failed
	c.Dropped += o.Dropped
	c.Batches += o.Batches
	c.FailedBatches += o.FailedBatches
	c.Calls += o.Calls
	c.FailedCalls += o.FailedCalls
	c.CallTime += o.CallTime
	c.Retries += o.Retries
	c.Expiries += o.Expiries
	c.Isolations += o.Isolations
	c.Sizes.add(o.Sizes)
}

const (
	// maxJobs is how many jobs, the first ones, a worker counts separately.
	maxJobs = 100
	// OtherJobs is the name under which a worker counts all jobs after its first 100 together.
	OtherJobs = "other"
)

// tally counts what a worker does, job by job. It is safe for concurrent use.
type tally struct {
	meters []*meters.Meters // set before the first count

	mu   sync.RWMutex
	jobs map[string]*jobTally
}

// jobTally is what is counted of one job.
type jobTally struct {
	name           string
	series         []*meters.Job // one in each provider
	calls, batches atomic.Int64  // under way

	mu     sync.Mutex
	past   Counts // up to the last cut
	window Counts // since
}

// job returns the counts of a job, or those of all jobs that are not counted separately.
func (t *tally) job(name string) *jobTally {
	t.mu.RLock()
	j, full := t.jobs[name], len(t.jobs) >= maxJobs
	t.mu.RUnlock()
	switch {
	case j != nil:
		return j
	case full && name != OtherJobs:
		return t.job(OtherJobs)
	}
	return t.add(name)
}

func (t *tally) add(name string) *jobTally {
	made := &jobTally{name: name}
	for _, m := range t.meters {
		made.series = append(made.series, m.Job(name))
	}
	t.mu.Lock()
	if j := t.jobs[name]; j != nil {
		t.mu.Unlock()
		return j
	}
	if len(t.jobs) >= maxJobs && name != OtherJobs {
		t.mu.Unlock()
		return t.job(OtherJobs)
	}
	if t.jobs == nil {
		t.jobs = map[string]*jobTally{}
	}
	t.jobs[name] = made
	t.mu.Unlock()
	for _, s := range made.series {
		s.Begin()
	}
	return made
}

// each calls fn with all jobs that are counted, in no order.
func (t *tally) each(fn func(*jobTally)) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, j := range t.jobs {
		fn(j)
	}
}

// cut returns the counts in total, and since the last cut.
func (t *tally) cut() map[string]JobCounts {
	cut := map[string]JobCounts{}
	t.each(func(j *jobTally) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.past.add(j.window)
		cut[j.name] = JobCounts{Total: j.past, Window: j.window}
		j.window = Counts{}
	})
	return cut
}

func (j *jobTally) count(fn func(*Counts)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	fn(&j.window)
}
