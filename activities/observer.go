package activities

import "time"

// Observer is told what the executions of Process do, by many goroutines at once. Its methods must
// be quick.
type Observer interface {
	// BatchBegan and BatchEnded are told of each execution, once it has its slot; err is why it
	// failed, nil where it has not.
	BatchBegan(job string)
	BatchEnded(job string, err error)
	// CallBegan and CallEnded are told of each call of the handler.
	CallBegan(job string)
	CallEnded(CallStats)
	// Recorded is told of outcomes once they are in the part, call by call, and of what they took.
	Recorded(RecordStats)
}

// CallStats tell of one call.
type CallStats struct {
	Job   string
	Items int // with an outcome
	Took  time.Duration
	Fault string // one of job.Kind…, where the call failed as a whole
	Cut   bool   // it came to its end before its last item because the batch had to end
}

// RecordStats tell of outcomes; all numbers are as in job.Totals.
type RecordStats struct {
	Job                           string
	OK, Failed, Dropped           int64
	Retries, Expiries, Isolations int64
}

// unobserved is for workers where nobody wants to know.
type unobserved struct{}

func (unobserved) BatchBegan(string)        {}
func (unobserved) BatchEnded(string, error) {}
func (unobserved) CallBegan(string)         {}
func (unobserved) CallEnded(CallStats)      {}
func (unobserved) Recorded(RecordStats)     {}

// tell tells the observer what has been recorded since it was told last.
func (e *execution) tell() {
	c := e.caller
	now := RecordStats{
		OK: e.entry.OK, Failed: e.entry.Failed, Dropped: e.entry.Dropped,
		Retries: c.retries, Expiries: c.expiries, Isolations: c.isolations,
	}
	before := e.told
	e.told = now
	e.acts.opts.Observer.Recorded(RecordStats{
		Job: e.in.Ref.Job,
		OK:  now.OK - before.OK, Failed: now.Failed - before.Failed, Dropped: now.Dropped - before.Dropped,
		Retries: now.Retries - before.Retries, Expiries: now.Expiries - before.Expiries, Isolations: now.Isolations - before.Isolations,
	})
}
