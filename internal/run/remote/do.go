package remote

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"time"

	"github.com/stint-run/stint/job"
	"go.opentelemetry.io/otel/propagation"
)

// Reply is what has become of a request's items.
type Reply struct {
	Items []Outcome // of each item that the request was made of
	Usage Usage     // Reported says whether the answer had it
	// Reported says that the answer reports its usage.
	Reported bool
	// SlowDown says that a limit of the server is used up, and Wait when it is reset: nothing should be sent before.
	SlowDown bool
	Wait     time.Duration
}

// Outcome is that of one item.
type Outcome struct {
	Value []byte // in JSON, compact; nil if there is a Fault
	Fault *Fault
}

// keyHeader is the header that makes a request idempotent.
const keyHeader = "Idempotency-Key"

// traceHeader is the header by which a server's spans become children of a call's.
const traceHeader = "Traceparent"

// errorBody is how much of an answer that is no result is read, in bytes.
const errorBody = 64 << 10

// Do sends the request. key makes it idempotent: it is the same for repetitions of a request, and no other's.
//
// The error is a *Fault, of all items that are part of the request, or why ctx is done. A fault of several items may be
// that of one of them: call fewer. An answer of the wrong length, or one that is too large, is a fault of the kind
// job.KindLength.
func (e *Endpoint) Do(ctx context.Context, r *Request, key string) (*Reply, error) {
	if r.Empty() {
		return e.reply(r, nil), nil
	}
	request, err := e.outgoing(ctx, r, key)
	if err != nil {
		return nil, e.sendFault(err)
	}
	answer, err := e.client.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, e.sendFault(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return nil, e.refused(ctx, answer)
	}
	body, err := e.readAnswer(ctx, answer, e.maxAnswer)
	if err != nil {
		return nil, err
	}
	return e.accept(ctx, r, answer, body)
}

// outgoing returns the request as it is sent. It shares the URL and the values of headers with others.
func (e *Endpoint) outgoing(ctx context.Context, r *Request, key string) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, e.method, "", bytes.NewReader(r.body)) // its URL need not be parsed again
	if err != nil {
		return nil, err
	}
	request.URL, request.Host = r.url, r.url.Host
	request.Header = maps.Clone(r.header)
	if key != "" && request.Header.Get(keyHeader) == "" {
		request.Header[keyHeader] = []string{key}
	}
	if request.Header.Get(traceHeader) == "" {
		propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(request.Header))
	}
	return request, nil
}

// refused returns the fault of an answer that is no result.
func (e *Endpoint) refused(ctx context.Context, answer *http.Response) error {
	body, err := e.readStart(answer)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return e.statusFault(answer.StatusCode, answer.Header, body)
}

// readStart reads as much of an answer as an error has. If it is all, the connection can be used again.
func (e *Endpoint) readStart(answer *http.Response) ([]byte, error) {
	body := make([]byte, errorBody)
	n := 0
	for n < len(body) {
		read, err := answer.Body.Read(body[n:])
		n += read
		if err != nil {
			return body[:n], err
		}
	}
	return body[:n], nil
}

// accept returns the results in an answer.
func (e *Endpoint) accept(ctx context.Context, r *Request, answer *http.Response, body []byte) (*Reply, error) {
	usage, reported := usageOf(body)
	values, fault := e.results(ctx, r.sent, answer, body)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if fault != nil {
		fault.Usage = usage
		if fault.Status == 0 { // otherwise the answer is an error of the server
			fault.Status, fault.Unfit = answer.StatusCode, true
		}
		return nil, fault
	}
	e.worked.Store(true)
	reply := e.reply(r, values)
	reply.Usage, reply.Reported = usage, reported
	if _, ok := exhausted(answer.Header, e.now()); ok {
		reply.Wait, _ = statedWait(answer.Header, nil, e.now())
		reply.SlowDown = reply.Wait > 0
	}
	return reply, nil
}

// reply gives each item what it has: its own fault, or the next value, which must fit the schema.
func (e *Endpoint) reply(r *Request, values [][]byte) *Reply {
	reply := &Reply{Items: make([]Outcome, len(r.faults))}
	for i, f := range r.faults {
		if f != nil {
			reply.Items[i].Fault = f
			continue
		}
		value := values[0]
		values = values[1:]
		if e.schema != nil {
			if err := e.schema.Check(value); err != nil {
				f := newFault(Again, TypeSchema, "the result does not fit the schema: %s", e.Redact(err.Error()))
				f.Kind, f.Unfit = job.KindInvalid, true
				reply.Items[i].Fault = f
				continue
			}
		}
		reply.Items[i].Value = value
	}
	return reply
}
