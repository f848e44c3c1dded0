package activities

import (
	"slices"
	"sync"

	"github.com/stint-run/stint/internal/calls"
	"github.com/stint-run/stint/internal/limits"
	"github.com/stint-run/stint/job"
)

// ignoresContext is why a call runs on that was left behind.
const ignoresContext = "a Go function that ignores its cancelled context"

// leftCalls are the calls of a worker that it has left behind and that have not returned.
type leftCalls struct {
	mu   sync.Mutex
	jobs map[string][]leftCall // by run ID
}

// leftCall is one of them.
type leftCall struct {
	calls.LeftCall
	job.Straggler
}

// add adds a call of an execution.
func (l *leftCalls) add(e *execution, call calls.LeftCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.jobs == nil {
		l.jobs = map[string][]leftCall{}
	}
	for run, of := range l.jobs { // they are few
		if l.jobs[run] = slices.DeleteFunc(of, leftCall.Returned); len(l.jobs[run]) == 0 {
			delete(l.jobs, run)
		}
	}
	at := call.Place
	l.jobs[e.in.Ref.Run] = append(l.jobs[e.in.Ref.Run], leftCall{call, job.Straggler{
		Batch: e.in.Batch.String(), Worker: at.Worker, Slot: at.Slot, PID: at.PID, Since: e.began.UTC(), Why: ignoresContext,
	}})
}

// take takes out those of a job: each is reported once.
func (l *leftCalls) take(run string) (running []job.Straggler) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, call := range l.jobs[run] {
		if len(running) < limits.MaxForced && !call.Returned() {
			running = append(running, call.Straggler)
		}
	}
	delete(l.jobs, run)
	return running
}

// leftAtStop returns the calls of the job that still run here, if the execution ends because of the job's stop.
func (e *execution) leftAtStop() []job.Straggler {
	if e.ctx.Err() == nil || disowned(e.ctx) {
		return nil
	}
	return e.acts.left.take(e.in.Ref.Run)
}
