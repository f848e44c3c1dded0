package workflows

import (
	"errors"
	"fmt"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// A batch whose workers keep dying holds, most likely, an item that ends them. The leg narrows it
// down: it has only the first items of the batch done (activities.ProcessInput.Take), half of those
// that are suspected at a time. What survives is recorded, and the suspects are what is left; what
// dies is suspected alone. So among n items a bad one costs log2(n) + 2 deaths after the attempts
// of the batch. Where the last heartbeat told which items were in hand, they are the first suspects.
//
// A worker that dies takes other batches with it, and two bad ones at a time could make a third, good
// one look bad. So a leg has one suspected batch in flight at a time, and the last item that is
// suspected runs alone, with nothing else of the leg in flight.

// Suspicion is what is suspected of a batch's first items.
type Suspicion struct {
	Suspects int64 `json:"s,omitempty"` // how many of the first items hold a bad one; 0: there is no suspicion
	// Ahead is how many items the worker had done before those that it had in hand when it last
	// heartbeat; InHand is how many those were. Once Ahead are done, they are the suspects.
	Ahead  int64 `json:"a,omitempty"`
	InHand int64 `json:"h,omitempty"`
	// Hinted: if the suspects turn out to be innocent, the hint was out of date: the rest is suspected.
	Hinted    bool `json:"hd,omitempty"`
	Single    int  `json:"si,omitempty"` // deaths of the first item alone
	Condemned bool `json:"c,omitempty"`  // the first item is recorded as failed
	Deaths    int  `json:"d,omitempty"`  // of workers, since the last item with an outcome
	// Verdict is the cause of the last death.
	Kind  string `json:"k,omitempty"`
	Cause string `json:"ca,omitempty"`
}

// singleTries is how often an item that is suspected alone is tried.
const singleTries = 2

// versionSuspects gates the narrowing: before it a batch whose workers died too often failed the job.
const versionSuspects = "suspects"

func (s *Suspicion) suspected() bool { return s.Suspects > 0 || s.Ahead > 0 }

// alone reports that nothing else should run beside the batch.
func (s *Suspicion) alone() bool { return s.Suspects == 1 && s.Ahead == 0 && !s.Condemned }

// take is how many items the next execution does; 0: all.
func (s *Suspicion) take() int64 {
	switch {
	case s.Ahead > 0:
		return s.Ahead
	case s.Suspects > 1:
		return s.Suspects / 2
	}
	return s.Suspects
}

// verdict is what the next execution records without trying; nil: it tries.
func (s *Suspicion) verdict() *activities.Verdict {
	if !s.Condemned {
		return nil
	}
	return &activities.Verdict{Kind: s.Kind, Attempts: s.Deaths, Error: job.Error{
		Type: "WorkerDied", Message: fmt.Sprintf("every worker that had it in hand was lost, %d in all; the last time: %s", s.Deaths, s.Cause),
	}}
}

// suspense tells people what is done about it.
func (s *Suspicion) suspense() string {
	switch {
	case s.Condemned:
		return "recording the item that its workers died of"
	case s.alone():
		return "trying its first item alone"
	}
	return fmt.Sprintf("trying its first %s items alone", job.Thousands(s.take()))
}

// begin takes the suspicion up, of a batch of so many items.
func (s *Suspicion) begin(batch job.Batch, hint *job.Hint) {
	s.Suspects = batch.Count
	if hint == nil || hint.First < batch.First || hint.Count < 1 || hint.First+hint.Count > batch.End() {
		return
	}
	s.Ahead, s.InHand, s.Hinted = hint.First-batch.First, hint.Count, true
	s.Suspects = s.InHand
}

// died narrows the suspicion after an execution that its worker did not survive.
func (s *Suspicion) died() {
	took := s.take()
	if s.Ahead > 0 {
		s.Ahead, s.Hinted = 0, false // the hint was wrong
	}
	s.Suspects = took
	if took == 1 {
		s.Single++
		s.Condemned = s.Single >= singleTries
	}
}

// survived takes in that the first items have outcomes, and that so many others are left.
func (s *Suspicion) survived(done, left int64) {
	if done > 0 {
		s.Single, s.Deaths = 0, 0
	}
	switch {
	case s.Condemned:
		*s = Suspicion{}
		return
	case s.Ahead > done:
		s.Ahead -= done
		return
	case s.Ahead > 0:
		s.Suspects, s.Ahead = s.InHand-(done-s.Ahead), 0
	default:
		s.Suspects -= done
	}
	if s.Suspects > 0 {
		return
	}
	if s.Hinted {
		*s = Suspicion{Suspects: left}
		return
	}
	*s = Suspicion{} // whatever it was, it has passed
}

// lost decides what follows the death of the worker that had the task in hand.
func (l *leg) lost(t task, err error) {
	t.Deaths++
	t.Kind, t.Cause = job.KindCrash, jobError(err).Message
	if !ranOut(err) {
		t.Kind = job.KindExpired
	}
	if t.suspected() {
		t.died()
	} else {
		l.result.Totals.Isolations++
		t.begin(t.Batch, lastHint(err))
	}
	if t.Condemned && t.Single >= singleTries+l.in.Spec.Attempts {
		// Not even the verdict can be recorded: it is not the item.
		l.again(t)
		l.fail(exhausted(t, t.Deaths, t.Cause))
		return
	}
	l.result.Totals.Retries++
	l.again(t)
}

// exhausted is the error of a job of which a batch cannot be done.
func exhausted(t task, tries int, cause string) *job.Error {
	return &job.Error{Type: job.ErrorExhausted, Message: fmt.Sprintf("%s was tried %d times; the last time: %s", t.Batch, tries, cause)}
}

// lastHint is what the lost worker last told; nil where it told nothing.
func lastHint(err error) *job.Hint {
	var timeout *temporal.TimeoutError
	if !errors.As(err, &timeout) || !timeout.HasLastHeartbeatDetails() {
		return nil
	}
	var hint job.Hint
	if timeout.LastHeartbeatDetails(&hint) != nil {
		return nil
	}
	return &hint
}

// narrows reports whether the leg may narrow a batch down.
func (l *leg) narrows() bool {
	return workflow.GetVersion(l.ctx, versionSuspects, workflow.DefaultVersion, 1) >= 1
}

// next takes the first task that may run now out of those that wait; false where there is none.
func (l *leg) next() (task, bool) {
	suspect, single := false, false // in flight
	for _, t := range l.flying {
		suspect = suspect || t.suspected()
		single = single || t.alone()
	}
	if single {
		return task{}, false
	}
	for i, t := range l.waiting {
		switch {
		case t.suspected() && suspect:
			continue
		case t.alone() && len(l.flying) > 0:
			return task{}, false // until it is alone
		}
		l.waiting = append(l.waiting[:i:i], l.waiting[i+1:]...)
		return t, true
	}
	return task{}, false
}
