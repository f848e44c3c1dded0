package remote

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/stint-run/stint/internal/run/command"
	"github.com/stint-run/stint/job"
)

// Request is the request of one or several items. It can be sent any number of times, one after the other.
type Request struct {
	url    *url.URL
	header http.Header
	body   []byte
	faults []*Fault // of each item; nil: it is part of the request
	sent   int      // items that are part of it

	estimate Usage // of a model; otherwise Estimate finds it, if it is wanted
}

// NewRequest returns the request of a call's items: of exactly one, unless the endpoint takes several. Items that
// have no request, because a value is missing, say, fail by themselves, and are not part of it. The items are not used
// afterwards.
func (e *Endpoint) NewRequest(items []command.Item) *Request {
	if len(items) != 1 && !e.array {
		panic(fmt.Sprintf("remote: a request of %d items, of an endpoint that takes one", len(items)))
	}
	r := &Request{faults: make([]*Fault, len(items))}
	if e.array {
		e.fillArray(r, items)
	} else {
		r.faults[0] = e.templateFault(e.fill(r, &items[0]))
	}
	for _, f := range r.faults {
		if f == nil {
			r.sent++
		}
	}
	return r
}

func (e *Endpoint) templateFault(err error) *Fault {
	if err == nil {
		return nil
	}
	f := newFault(Fail, TypeTemplate, "%s", e.Redact(err.Error()))
	f.Kind = job.KindInvalid
	return f
}

// fill makes the request of one item.
func (e *Endpoint) fill(r *Request, item *command.Item) (err error) {
	if r.url, err = e.url.of(item); err != nil {
		return err
	}
	if r.header, err = e.header(item); err != nil {
		return err
	}
	switch {
	case e.model != nil:
		r.body, r.estimate, err = e.model.chat(item)
	case e.body != nil:
		r.body, err = e.body.append(nil, item)
	}
	return err
}

// fillArray makes the request of all items that have a body.
func (e *Endpoint) fillArray(r *Request, items []command.Item) {
	r.url = e.url.fixed
	r.header, _ = e.header(nil) // which has no placeholders
	if e.model != nil {
		var texts []string
		for i := range items {
			text, err := e.model.prompt.of(&items[i])
			if r.faults[i] = e.templateFault(err); err == nil {
				texts = append(texts, text)
				r.estimate.In += Tokens(text)
			}
		}
		r.body = e.model.embed(texts)
		return
	}
	r.body = append(r.body, '[')
	for i := range items {
		before := len(r.body)
		if before > 1 {
			r.body = append(r.body, ',')
		}
		body, err := e.body.append(r.body, &items[i])
		if r.faults[i] = e.templateFault(err); err != nil {
			r.body = r.body[:before]
			continue
		}
		r.body = body
	}
	r.body = append(r.body, ']')
}

// header returns the headers of an item's request, but for the key that makes it idempotent. They are not to be changed.
func (e *Endpoint) header(item *command.Item) (http.Header, error) {
	if e.plain != nil {
		return e.plain, nil
	}
	h := http.Header{"User-Agent": {"stint"}, "Accept": {"application/json, */*;q=0.5"}}
	if e.content != "" {
		h.Set("Content-Type", e.content)
	}
	for _, t := range e.headers {
		value, err := t.of(item)
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", t.name, err)
		}
		h.Set(t.name, value)
	}
	return h, nil
}

// Fault returns why the i-th item is not part of the request; nil if it is.
func (r *Request) Fault(i int) *Fault { return r.faults[i] }

// Empty reports whether no item is part of the request: it need not be sent.
func (r *Request) Empty() bool { return r.sent == 0 }

// Size returns the bytes of the body.
func (r *Request) Size() int { return len(r.body) }

// Estimate returns how many tokens the request takes, for a limit of tokens per minute: In by Tokens, of the prompts
// and the schema, or of the body if there is no model; Out as many as the model may answer at most, as providers count
// them, 500 if that is not limited, and 0 for vectors or without a model.
func (r *Request) Estimate() Usage {
	if r.estimate == (Usage{}) && r.body != nil {
		r.estimate.In = Tokens(string(r.body))
	}
	return r.estimate
}
