package job

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// State is how a job stands.
type State string

// The states of a job. Completed, Stopped and Failed are final; the last two can be resumed.
const (
	Running   State = "running"
	Completed State = "completed"
	Stopping  State = "stopping"
	Stopped   State = "stopped"
	Failed    State = "failed"
)

// Final reports whether the state is one that a job ends in.
func (s State) Final() bool { return s == Completed || s == Stopped || s == Failed }

// Totals are counts over accepted batches. They add up.
type Totals struct {
	OK      int64 `json:"ok"`      // items with a result, dropped ones included
	Failed  int64 `json:"failed"`  // items with an error
	Dropped int64 `json:"dropped"` // items whose handler said "no result"

	Batches    int64 `json:"batches"`    // accepted executions of batches
	Retries    int64 `json:"retries"`    // calls and batches tried again
	Crashes    int64 `json:"crashes"`    // processes that ended in the middle of a call
	Expiries   int64 `json:"expiries"`   // timers that expired
	Isolations int64 `json:"isolations"` // calls and batches that were halved
	SlowDowns  int64 `json:"slow_downs"` // times that a handler asked for less

	Calls     int64 `json:"calls"`      // calls of the handler that were answered
	CallItems int64 `json:"call_items"` // items in them
	CallMin   int64 `json:"call_min"`   // smallest call, in items
	CallMax   int64 `json:"call_max"`   // largest call, in items

	InputBytes int64         `json:"input_bytes"` // bytes of input done
	Busy       time.Duration `json:"busy"`        // time spent in Process, summed over slots, in nanoseconds
}

// Add adds o to t.
func (t *Totals) Add(o Totals) {
	t.OK += o.OK
	t.Failed += o.Failed
	t.Dropped += o.Dropped
	t.Batches += o.Batches
	t.Retries += o.Retries
	t.Crashes += o.Crashes
	t.Expiries += o.Expiries
	t.Isolations += o.Isolations
	t.SlowDowns += o.SlowDowns
	if o.Calls > 0 && (t.Calls == 0 || o.CallMin < t.CallMin) {
		t.CallMin = o.CallMin
	}
	t.CallMax = max(t.CallMax, o.CallMax)
	t.Calls += o.Calls
	t.CallItems += o.CallItems
	t.InputBytes += o.InputBytes
	t.Busy += o.Busy
}

// Done is the number of items with an outcome.
func (t Totals) Done() int64 { return t.OK + t.Failed }

// Progress is what one leg knows of itself.
type Progress struct {
	Totals
	Waiting    int         `json:"waiting"` // batches not yet dispatched
	InFlight   int         `json:"in_flight"`
	FirstError *FirstError `json:"first_error,omitempty"`
	// LastFailure is why a batch was last tried again, for people.
	LastFailure string `json:"last_failure,omitempty"`
	// Oldest is the batch in flight that was given out first, for people.
	Oldest  string        `json:"oldest,omitempty"`
	Workers []WorkerShare `json:"workers,omitempty"`
}

// Output says where a finished job's results are.
type Output struct {
	Location string `json:"location"`           // file, or directory or bucket prefix with parts
	Bytes    int64  `json:"bytes"`              // of all results
	Checksum string `json:"checksum,omitempty"` // "crc32c:…" of all results
	Errors   string `json:"errors,omitempty"`   // file of error records, where there are any
}

// MaxLaterErrors and MaxWorkers bound a report.
const (
	MaxLaterErrors = 20
	MaxWorkers     = 50
)

// Throttle tells of a rate that a handler's wish has lowered. It comes back by itself.
type Throttle struct {
	Rate  Rate      `json:"rate"`  // of the whole job, at present; 0: not known, there is a pause only
	Until time.Time `json:"until"` // nothing new is begun before
}

// String tells what the job is slowed down to.
func (t Throttle) String() string {
	if t.Rate == 0 {
		return "to a pause until " + t.Until.UTC().Format(time.TimeOnly)
	}
	return fmt.Sprintf("to %s items/s", t.Rate)
}

// WorkerShare is what one worker has done of a job.
type WorkerShare struct {
	Worker  string        `json:"worker"`
	Batches int64         `json:"batches"`
	Items   int64         `json:"items"`
	Busy    time.Duration `json:"busy"` // summed over its slots, in nanoseconds
	Last    time.Time     `json:"last"` // when its last batch was taken in
}

// AddWorkers adds the shares of two lists, by worker, and keeps the busiest ones.
func AddWorkers(a, b []WorkerShare) []WorkerShare {
	sum := slices.Clone(a)
	for _, w := range b {
		i := slices.IndexFunc(sum, func(s WorkerShare) bool { return s.Worker == w.Worker })
		if i < 0 {
			sum = append(sum, w)
			continue
		}
		s := &sum[i]
		s.Batches += w.Batches
		s.Items += w.Items
		s.Busy += w.Busy
		if w.Last.After(s.Last) {
			s.Last = w.Last
		}
	}
	slices.SortFunc(sum, func(a, b WorkerShare) int {
		return cmp.Or(cmp.Compare(b.Items, a.Items), cmp.Compare(a.Worker, b.Worker))
	})
	return sum[:min(len(sum), MaxWorkers)]
}

// Report tells how a job stands.
type Report struct {
	Job   string `json:"job"`
	Run   string `json:"run"` // run ID of the first run, the key of its data in the store
	Pool  string `json:"pool"`
	State State  `json:"state"`
	// Reason is why the job was stopped, Error why it failed; in the states stopping and stopped Error
	// says what was still running.
	Reason string `json:"reason,omitempty"`
	Error  *Error `json:"error,omitempty"`
	// LaterErrors were reported once the job was ending already: they change nothing. At most
	// [MaxLaterErrors]; LaterErrorsOmitted counts the others.
	LaterErrors        []Error `json:"later_errors,omitempty"`
	LaterErrorsOmitted int     `json:"later_errors_omitted,omitempty"`
	// StopDeadline is when the grace period of the stop ends.
	StopDeadline *time.Time `json:"stop_deadline,omitempty"`

	// Unserved: no worker has taken the job's first work within seconds, as the job itself noticed.
	Unserved bool `json:"unserved,omitempty"`

	Planned    int64 `json:"planned"`     // items found so far
	Discarded  int64 `json:"discarded"`   // items taken back by the user's wish
	PlanDone   bool  `json:"plan_done"`   // all items have been found
	TotalBytes int64 `json:"total_bytes"` // size of the input, 0 where unknown
	Totals
	// Resumed is how many of the items done came from an earlier, stopped or failed run.
	Resumed int64 `json:"resumed,omitempty"`
	// Redriven is how many failed items the redrive that this report is of has run again.
	Redriven int64 `json:"redriven,omitempty"`

	Legs        int         `json:"legs"`                   // legs started
	OpenLegs    []string    `json:"open_legs,omitempty"`    // workflow IDs of running legs
	Waiting     int         `json:"waiting"`                // batches planned and not dispatched
	InFlight    int         `json:"in_flight"`              // batches dispatched and not finished
	LastFailure string      `json:"last_failure,omitempty"` // why a batch was last tried again
	Oldest      string      `json:"oldest,omitempty"`       // batch in flight that was given out first
	FirstError  *FirstError `json:"first_error,omitempty"`
	Stragglers  []Straggler `json:"stragglers,omitempty"`

	// Settings are those in force, also after [Run.Set].
	Settings Settings `json:"settings"`
	// Throttle tells of a rate that is lowered because the handler asked for it.
	Throttle *Throttle `json:"throttle,omitempty"`
	Hooks    []HookRun `json:"hooks,omitempty"`
	// Workers are those that have done batches, the busiest first: at most [MaxWorkers].
	Workers []WorkerShare `json:"workers,omitempty"`

	Started time.Time  `json:"started"`
	Ended   *time.Time `json:"ended,omitempty"`
	Output  *Output    `json:"output,omitempty"`

	Store     string   `json:"store"`               // where parts and manifests are
	Manifests []string `json:"manifests,omitempty"` // heads of the manifest chain
	// Redrive is set while failed items are run again, and where that was stopped or has failed. The
	// items counted are then these; Output and Manifests are still those of the job as it had completed.
	Redrive *Redrive `json:"redrive,omitempty"`
}

// Include adds what a running leg knows of itself.
func (r *Report) Include(p Progress) {
	r.Totals.Add(p.Totals)
	r.Waiting += p.Waiting
	r.InFlight += p.InFlight
	r.FirstError = r.FirstError.First(p.FirstError)
	r.Workers = AddWorkers(r.Workers, p.Workers)
	if r.Oldest == "" {
		r.Oldest = p.Oldest // of the leg that was begun first
	}
	if p.LastFailure != "" {
		r.LastFailure = p.LastFailure
	}
}
