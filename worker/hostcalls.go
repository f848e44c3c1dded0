package worker

import (
	"context"
	"errors"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/frames"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/timers"
)

func (*host) Traits() activities.Traits { return activities.Traits{Form: activities.CheckedJSON} }

func (h *host) CallSize() activities.CallSize {
	if h.size.Items > 0 {
		return h.size
	}
	return activities.CallSize{Items: h.pace.items(), Bytes: h.size.Bytes}
}

// Call has the slot's program make the call, and again for items that have failed and may be tried
// again. What was answered before a program died is kept (K2).
func (h *host) Call(c *activities.Call) error {
	c.Keep = true
	at := c.Slot.(*place)
	results, fault := h.round(c, at, &at.call, c.Items)
	again := retries(results, 1, c.ItemAttempts)
	if fault != nil || len(again) == 0 {
		for i := range results {
			tell(c, &results[i], 1)
		}
		return fault
	}
	h.repeat(c, at, results, again)
	return nil
}

// retries returns the indexes of the results that are errors, if their items may be tried again.
func retries(results []frames.Result, try, attempts int) []int {
	var again []int
	if try < attempts {
		for i := range results {
			if results[i].Error != nil {
				again = append(again, i)
			}
		}
	}
	return again
}

// repeat makes calls of the items at these indexes until none is to be tried again, and adds the
// outcomes of all to the call's answer. What has failed before has failed, whatever a repetition
// comes to.
func (h *host) repeat(c *activities.Call, at *place, results []frames.Result, again []int) {
	tries := make([]int, len(results))
	for i := range tries {
		tries[i] = 1
	}
	for try := 2; len(again) > 0 && c.Wait(try-1); try++ {
		items := make([]activities.Item, len(again))
		for k, i := range again {
			items[k] = c.Items[i]
		}
		some, fault := h.round(c, at, &pending{}, items)
		for k := range some {
			results[again[k]], tries[again[k]] = some[k], try
		}
		if fault != nil || len(some) < len(again) {
			break
		}
		var next []int
		for _, k := range retries(some, try, c.ItemAttempts) {
			next = append(next, again[k])
		}
		again = next
	}
	for i := range results {
		tell(c, &results[i], tries[i])
	}
}

// tell adds an outcome to the call's answer.
func tell(c *activities.Call, r *frames.Result, tries int) {
	switch {
	case r.Error != nil:
		c.Answer.Fail(&activities.Fault{Kind: job.KindError, Err: *r.Error}, tries)
	case r.Drop:
		c.Answer.Drop()
	default:
		c.Answer.Line(r.Value)
	}
}

// round makes one call of the items. The results are call's.
func (h *host) round(c *activities.Call, at *place, call *pending, items []activities.Item) ([]frames.Result, error) {
	suspect := at.suspect
	p, err := at.slot.ready(c.Soon(), suspect)
	if p == nil {
		return nil, err
	}
	defer at.slot.release(suspect)
	began := time.Now()
	ctx := c.Begin()
	defer c.End()
	call.begin(len(items), c.Isolating || suspect, c, at.occupant.Job)
	call.suspect = suspect
	id := p.begin(call, at, func(i int) []byte { return items[i].Data })
	if !p.readAnswer(call) {
		h.await(ctx, c, p, call, id)
	}
	at.suspect = call.suspect
	if call.fault == nil {
		h.pace.learn(call.items, time.Since(began))
	}
	return call.results, call.fault
}

// await waits until the call has ended. It passes on that it should, or must.
func (h *host) await(ctx context.Context, c *activities.Call, p *program, call *pending, id int64) {
	done, stopping := p.done(call), c.Stopping()
	for {
		select {
		case <-done:
			return
		case <-stopping:
			p.stopping(c.StopNotice())
			stopping = nil
		case <-ctx.Done():
			h.cut(c, p, id, context.Cause(ctx))
			<-done
			return
		}
	}
}

// cut ends the program because a call must not go on: its timer has expired, or all must end.
func (h *host) cut(c *activities.Call, p *program, id int64, cause error) {
	fault := activities.FaultOf(cause)
	var expired *timers.ExpiredError
	if errors.As(cause, &expired) {
		p.end(ending{fault: fault, guilty: id}, true)
		return
	}
	p.endSoftly(ending{fault: fault, guilty: id}, h.options.termLimit(cause))
}
