package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/command"
	"github.com/stint-run/stint/internal/run/remote"
	"github.com/stint-run/stint/job"
)

func (h *httpHandler) Call(c *calls.Call) error {
	defer c.End()
	c.Spread(jitter())
	step := len(c.Items)
	if !h.endpoint.Several() {
		step = 1
	}
	for i := 0; i < len(c.Items); i += step {
		if i > 0 && c.Ending() {
			return nil
		}
		r := &httpRequest{httpHandler: h, c: c, first: i, items: c.Items[i : i+step]}
		if goOn, err := r.send(); !goOn || err != nil {
			return err
		}
	}
	return nil
}

// jitter makes waits differ from those of others: requests which have failed together do not come together again.
func jitter() float64 { return 0.75 + rand.Float64()/2 }

// httpRequest is the request of items of a call.
type httpRequest struct {
	*httpHandler
	c     *calls.Call
	first int // of the items in the call
	items []calls.Item
}

// send sends the request, and adds the items' outcomes. It returns false if the items have none yet, and the call ends
// with that; an error is one of all the items.
func (r *httpRequest) send() (goOn bool, err error) {
	items := make([]command.Item, len(r.items))
	slot := r.c.Place.Describe().Slot + 1
	for i, item := range r.items {
		items[i] = command.Item{Data: item.Data, JSON: true, Number: item.Ordinal + 1, Slot: slot}
	}
	request := r.endpoint.NewRequest(items)
	turn, ok := r.take(request, items)
	if !ok {
		return false, nil
	}
	ctx := r.c.Begin()
	reply, err := r.endpoint.Do(ctx, request, r.idempotencyKey())
	r.c.End()
	turn.Done(r.price(usageOf(reply, err)), err == nil)
	if err != nil {
		return r.failed(ctx, err)
	}
	r.refusals.answered()
	r.outcasts.answered(r.key())
	if reply.SlowDown {
		r.c.SlowDown(slowDownTime(reply.Wait))
	}
	for i, o := range reply.Items {
		r.add(i, o)
		if r.c.Answer.Full() && r.first+i+1 < len(r.c.Items) {
			r.c.Keep = true
			return false, calls.FullFault()
		}
	}
	return true, nil
}

// take waits until the job's limits allow the request. It returns false if the call ends before.
func (r *httpRequest) take(request *remote.Request, items []command.Item) (*calls.Request, bool) {
	if request.Empty() {
		return &calls.Request{}, true // it is not sent
	}
	wanted := calls.Wanted{Items: r.items}
	if r.c.Limited() {
		wanted.Keys, wanted.Estimate = r.keys.of(r.c.LimitedBy(), items), r.price(request.Estimate())
	}
	return r.c.Take(wanted)
}

// usageOf returns the tokens that a request took.
func usageOf(reply *remote.Reply, err error) remote.Usage {
	if f, ok := errors.AsType[*remote.Fault](err); ok {
		return f.Usage
	}
	if reply == nil {
		return remote.Usage{}
	}
	return reply.Usage
}

// key distinguishes the request from all others.
func (r *httpRequest) key() refusedKey {
	return refusedKey{r.c.Run, r.c.Stage, r.items[0].Ordinal, len(r.items)}
}

// add adds the outcome of an item, the next in order.
func (r *httpRequest) add(i int, o remote.Outcome) {
	if o.Fault != nil {
		r.fail(i, o.Fault)
		return
	}
	fault := calls.CheckResult(o.Value)
	if len(o.Value) > calls.MaxResult {
		fault = calls.TooLargeFault(len(o.Value))
	}
	if fault != nil {
		r.c.Answer.Fail(fault, r.c.Tried(r.first+i)+1)
		return
	}
	r.c.Answer.Line(o.Value)
}

// fail adds the failure of an item, or has it called again.
func (r *httpRequest) fail(i int, f *remote.Fault) {
	tries := 1
	if f.Verdict == remote.Again {
		tries = r.c.ItemAttempts // whatever its kind is
	}
	if f.Unfit {
		r.c.NoteUnfit(r.first + i)
	}
	r.c.Add(r.first+i, r.c.Failed(callFault(f), r.c.Tried(r.first+i)+1, tries))
}

// callFault returns a fault as calls have it.
func callFault(f *remote.Fault) *calls.Fault {
	return &calls.Fault{Kind: f.Kind, Err: job.Error{Type: f.Type, Message: f.Message}}
}

// failed takes in why a request has no answer, or one that is no result. It is send's result.
func (r *httpRequest) failed(ctx context.Context, err error) (goOn bool, _ error) {
	f, ok := errors.AsType[*remote.Fault](err)
	if !ok {
		return r.cutOff(calls.CauseOf(ctx, err))
	}
	switch {
	case f.SlowDown && len(r.items) == 1 && r.outcasts.refused(r.key()):
		f.Verdict = remote.Fail // such as a request that is larger than the limit itself
		r.fail(0, f)
		return true, nil
	case f.SlowDown:
		wait := f.Wait
		if wait <= 0 {
			wait = r.refusals.wait(min(r.c.Backoff, firstRefusal))
		}
		r.c.SlowDown(slowDownTime(wait))
		return false, nil
	case f.Verdict == remote.Stop:
		return r.stop(ctx, f), nil
	case len(r.items) == 1:
		r.fail(0, f)
		return true, nil
	case f.Verdict == remote.Again && r.mayWait(f):
		for i := range r.items {
			r.fail(i, f)
		}
		return true, nil
	}
	fault := callFault(f)
	fault.Final = f.Verdict == remote.Fail
	return false, fault
}

// mayWait reports whether the items, several of them, should be tried again together: a server that has no answer for
// some time fails none. Once one of them has no further try, the fault is narrowed down.
func (r *httpRequest) mayWait(f *remote.Fault) bool {
	for i := range r.items {
		if r.c.Isolating || !r.c.Failed(callFault(f), r.c.Tried(r.first+i)+1, r.c.ItemAttempts).Later {
			return false
		}
	}
	return true
}

// cutOff takes in that the request was cut off: its time is over, or the worker must end. It is send's result.
func (r *httpRequest) cutOff(cause error) (goOn bool, _ error) {
	switch {
	case r.c.Ended():
		return false, nil
	case r.endpoint.Several():
		return false, cause
	}
	fault := calls.FaultOf(cause)
	failed := r.c.Failed(fault, r.c.Tried(r.first)+1, r.c.TriesOf(fault))
	if failed.Later {
		r.c.Expired()
	}
	r.c.Add(r.first, failed)
	return true, nil
}

// stop asks for a stop of the job, because no item can succeed, and waits until it has reached the call. It is the first
// result of send.
func (r *httpRequest) stop(ctx context.Context, f *remote.Fault) (goOn bool) {
	fault := callFault(f)
	err := r.stops.request(r.c.Run, func() error { return RequestStop(ctx, &fault.Err) })
	if errors.Is(err, calls.ErrNoCall) { // there is no job that could
		for i := range r.items {
			r.fail(i, f)
		}
		return true
	}
	select {
	case <-r.c.Soon():
	case <-time.After(stopReaches):
	}
	if !r.c.Ending() {
		r.c.SlowDown(time.Second) // what has failed is asked again
	}
	return false
}

// stopReaches is how long a stop that a call has asked for may take to reach it.
const stopReaches = 30 * time.Second

// firstRefusal is the longest first wait after a refusal that states none: it may have come at random, and if it has not,
// the waits soon double to what is needed.
const firstRefusal = 100 * time.Millisecond

// slowDownTime returns a wait as slow-down requests have it.
func slowDownTime(stated time.Duration) time.Duration {
	return min(max(stated, 100*time.Millisecond), time.Hour)
}

// maxKey is how many bytes a key may have: some servers take no more.
const maxKey = 255

// idempotencyKey returns the key of the request. A try after an answer that does not fit has a key of its own, with the
// number of such tries: a server that remembers keys would give the same answer again. Any other try has the key of the
// one before, which the server may have done.
func (r *httpRequest) idempotencyKey() string {
	unfit := 0
	for i := range r.items {
		unfit = max(unfit, r.c.Unfit(r.first+i))
	}
	key := idempotencyKey(r.c, r.items)
	if unfit > 0 {
		key = fmt.Sprintf("%s/%d", key, unfit+1)
	}
	return key
}

// idempotencyKey returns the key of the first request of some items: the same whenever these are called, also in a run that
// continues their job, and no other's. It has a digest of them, since what continues a job need not find the same items:
// an input of which nothing was done may have changed, and a stage may have another result than before.
func idempotencyKey(c *calls.Call, items []calls.Item) string {
	digest, head := sha256.New(), make([]byte, 0, 42)
	for _, item := range items {
		head = append(strconv.AppendInt(head[:0], item.Ordinal, 10), ' ')
		digest.Write(append(strconv.AppendInt(head, int64(len(item.Data)), 10), '\n'))
		digest.Write(item.Data)
	}
	number := strconv.FormatInt(items[0].Ordinal, 10)
	if n := len(items); n > 1 {
		number = fmt.Sprintf("%s+%d", number, n)
	}
	key := c.Job + "/" + c.RootRun + "/"
	if c.Stage != "" {
		key += c.Stage + "/"
	}
	key += number + "-" + hex.EncodeToString(digest.Sum(nil)[:8])
	if len(key)+len("/1000000000") > maxKey {
		key = fmt.Sprintf("%x", sha256.Sum256([]byte(key)))
	}
	return key
}

// stopRequests has each run of a job asked to stop once, however many calls find that it should. It is safe for
// concurrent use.
type stopRequests struct {
	mu    sync.Mutex
	asked string // the run
}

// request calls ask, unless the run has been asked. It returns ask's error.
func (s *stopRequests) request(run string, ask func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == run && run != "" {
		return nil
	}
	err := ask()
	if err == nil {
		s.asked = run
	}
	return err
}
