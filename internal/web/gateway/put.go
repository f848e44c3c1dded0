package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/stint-run/stint/jobs"
)

// gatherFor is how long items of a body of unknown length wait for others.
const gatherFor = 20 * time.Millisecond

// putAnswer is the answer to a put.
type putAnswer struct {
	Accepted int64 `json:"accepted"`
}

// put gives a request's items to a feed. A body of known length that is no more than one list is accepted or refused as
// a whole. Otherwise its items flow, in lists of what there is.
func (g *Gateway) put(a *answer, r *http.Request) {
	p := &putter{}
	err := g.withPut(a, r, p)
	g.meters.put(p.accepted)
	if err != nil {
		a.Header().Set("Connection", "close") // there may be more of the body
		a.failPut(ended(r.Context(), err), &p.accepted)
		return
	}
	a.json(http.StatusOK, putAnswer{Accepted: p.accepted})
}

func (g *Gateway) withPut(a *answer, r *http.Request, p *putter) error {
	values, err := parameters(r, "wait")
	if err != nil {
		return err
	}
	if text := values.Get("wait"); text != "" {
		if p.wait, err = time.ParseDuration(text); err != nil || p.wait < 0 || p.wait > maxWait {
			return badRequest("invalid wait %q: use 0 to %v, such as 5s", text, maxWait)
		}
	}
	single, err := singleValue(r)
	if err != nil {
		return err
	}
	return g.withFeed(r, func(f Feed) error {
		p.feed = f
		b := g.bodyOf(a, r)
		if !single {
			return p.lines(r.Context(), b)
		}
		item, err := b.value()
		if err != nil {
			return err
		}
		return p.list(r.Context(), []Value{item})
	})
}

// putter puts the items of one request.
type putter struct {
	feed     Feed
	wait     time.Duration // for room, for each list; 0: not at all
	flows    bool          // lists are cut to what the feed takes at once
	items    int           // the most that it takes
	bytes    int64
	accepted int64
}

// lines puts the lines of a body.
func (p *putter) lines(ctx context.Context, b *body) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	l := newLines(ctx, b)
	defer func() {
		cancel()
		if defect := l.end(); err == nil {
			err = defect
		}
	}()
	p.flows = b.length < 0 || b.length > jobs.MaxPutBytes
	p.items, p.bytes = jobs.MaxPutItems, jobs.MaxPutBytes
	var list []Value
	size := int64(0)
	gathered := make(<-chan time.Time) // never
	for {
		select {
		case c, more := <-l.chunks:
			if !more {
				if l.err != nil && !p.flows {
					return l.err // nothing of it
				}
				if err := p.list(ctx, list); err != nil {
					return err
				}
				return l.err
			}
			for _, item := range c {
				if len(list) == p.items || size+int64(len(item)) > p.bytes {
					p.flows = true
					if err := p.list(ctx, list); err != nil {
						return err
					}
					list, size = nil, 0
				}
				list = append(list, item)
				size += int64(len(item))
			}
			if b.length < 0 && len(list) > 0 {
				gathered = time.After(gatherFor)
			}
		case <-gathered:
			if err := p.list(ctx, list); err != nil {
				return err
			}
			list, size = nil, 0
		}
	}
}

// list puts a list.
func (p *putter) list(ctx context.Context, list []Value) error {
	for len(list) > 0 {
		n := len(list)
		if p.flows {
			n = p.fits(list)
		}
		err := p.feed.PutWait(ctx, p.wait, list[:n]...)
		large, ok := errors.AsType[*jobs.FeedError](err)
		if p.flows && n > 1 && ok && large.Code == jobs.CodeTooLarge {
			p.items, p.bytes = max(1, min(p.items, large.MaxItems)), min(p.bytes, large.MaxBytes)
			if p.fits(list) < n {
				continue
			}
		}
		if err != nil {
			return err
		}
		p.accepted += int64(n)
		list = list[n:]
	}
	return nil
}

// fits returns how many of the first items the feed takes at once: 1 or more.
func (p *putter) fits(list []Value) int {
	size := int64(0)
	for n, item := range list {
		size += int64(len(item))
		if n > 0 && (n == p.items || size > p.bytes) {
			return n
		}
	}
	return len(list)
}
