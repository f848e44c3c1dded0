package calls

import "time"

// Observer gets what the executions of Process do, by many goroutines at once. Its methods must
// be quick.
type Observer interface {
	// BatchBegan and BatchEnded are called for each execution, once it has its slot; err is why it
	// failed, nil if it has not.
	BatchBegan(job string)
	BatchEnded(job string, err error)
	// CallBegan and CallEnded are called for each call of the handler.
	CallBegan(job string)
	CallEnded(CallStats)
	// Recorded gets outcomes once they are in the part, call by call, and of what they took.
	Recorded(RecordStats)
}

// CallStats are about one call.
type CallStats struct {
	Job   string
	Stage string // of a pipeline; empty: it has none
	Items int    // with an outcome
	Took  time.Duration
	Fault string // one of job.Kind…, if the call failed as a whole
	// Cut says that it came to its end before its last item because the batch had to end, or that all its items are called again.
	Cut bool
	// Failed are those of the items that have failed; SlowDown says that the handler has asked to slow down, and
	// that the job does: see [Brake].
	Failed   int
	SlowDown bool
	// Refused says that the handler has asked to slow down, whether or not the job does.
	Refused bool
}

// RecordStats are about outcomes; all numbers are as in job.Totals.
type RecordStats struct {
	Job                           string
	OK, Failed, Dropped           int64
	Retries, Expiries, Isolations int64
}

// Sampler tries a sample of a job's items with a worker, which runs them as a small job.
type Sampler interface {
	// Open returns what is called in place of the worker's handler, and what observes the calls in place of its observer.
	Open(Handler, Observer) (Handler, Observer)
	// Ready is called once the handler can be called: the worker has started it in so long.
	Ready(time.Duration)
}

// Unobserved is for workers that nobody observes.
type Unobserved struct{}

func (Unobserved) BatchBegan(string)        {}
func (Unobserved) BatchEnded(string, error) {}
func (Unobserved) CallBegan(string)         {}
func (Unobserved) CallEnded(CallStats)      {}
func (Unobserved) Recorded(RecordStats)     {}
