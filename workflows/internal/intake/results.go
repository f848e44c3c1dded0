package intake

import (
	"slices"
	"time"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// leastHeld is the least bound of the results that a leg keeps for its clients: see outbox.mostHeld.
const leastHeld = 1 << 20

// outbox is the results that a leg keeps for its clients.
type outbox struct {
	limits    Limits
	session   int64 // of the leg: items of earlier ones are discarded
	now       time.Time
	clients   map[string]*client
	order     []*client // the same, in the order in which they came
	kept      int       // results that clients have not taken
	unclaimed int       // results that nobody has taken in time
	held      int       // bytes of results that are kept
}

// mostHeld bounds the results that a leg keeps for its clients, in bytes. Beyond it, results are in the store only. A
// client that has put all that the feed takes, and is slower than the workers for a while, finds results of that size
// here, and needs no store.
func (out *outbox) mostHeld() int { return int(max(leastHeld, out.limits.Bytes)) }

// client is one that has put items and wants their results.
type client struct {
	token   string
	pending int     // items without an outcome
	wanted  []*item // items in the order in which it has put them, from the first without an outcome on
	results []kept
}

// kept is a result that the client has not taken.
type kept struct {
	wire.ItemResult
	size  int
	since time.Time
}

func (out *outbox) client(token string) *client {
	c := out.clients[token]
	if c == nil {
		c = &client{token: token}
		out.clients[token] = c
		out.order = append(out.order, c)
	}
	return c
}

// give keeps a result for the client.
func (out *outbox) give(c *client, r wire.ItemResult) {
	k := kept{ItemResult: r, size: len(r.Result) + len(r.Failure), since: out.now}
	if out.held+k.size > out.mostHeld() && k.size > 0 {
		out.expire()
	}
	if out.held+k.size > out.mostHeld() && len(r.Result) > 0 {
		k.size -= len(r.Result)
		k.Result, k.Stored = nil, true // the item has its outcome, and its client must not wait for ever
	}
	out.held += k.size
	out.kept++
	c.results = append(c.results, k)
	c.pending-- // last: a client that waits for nothing is forgotten
	for len(c.wanted) > 0 && c.wanted[0].done {
		c.wanted = c.wanted[1:]
	}
}

// expire drops results that have been kept for long enough.
func (out *outbox) expire() {
	for _, c := range slices.Clone(out.order) {
		n := 0
		for n < len(c.results) && out.now.Sub(c.results[n].since) >= out.limits.Keep {
			out.held -= c.results[n].size
			out.unclaimed++
			n++
		}
		out.taken(c, n)
	}
}

// taken removes results of a client, and forgets it if it has nothing more to wait for.
func (out *outbox) taken(c *client, n int) {
	out.kept -= n
	c.results = c.results[n:]
	if c.pending == 0 && len(c.results) == 0 {
		delete(out.clients, c.token)
		out.order = slices.DeleteFunc(out.order, func(o *client) bool { return o == c })
	}
}

// Finish gives the items of a batch their outcomes: in order, one for each.
func (in *Intake) Finish(b wire.Batch, outcomes []wire.Outcome, now time.Time) {
	in.now = now
	for i, o := range outcomes {
		it := in.items[b.First+int64(i)]
		if it == nil {
			continue
		}
		r := wire.ItemResult{}
		switch {
		case o.Failure != nil:
			if it.client != "" {
				r.Failure = failure(*o.Failure)
			}
		case o.Result == nil:
			r.Dropped = true
		case it.client != "":
			r.Result = wire.ResultValue(o.Result)
		}
		in.finish(it, r)
	}
}

// FinishStored gives the items of a batch their outcomes, which lie in that part of the store; nil: it is not known in
// which.
func (in *Intake) FinishStored(b wire.Batch, part *wire.StoredPart, now time.Time) {
	in.now = now
	for it := range in.of(b) {
		in.finish(it, wire.ItemResult{Stored: true, Part: part})
	}
}

// failure returns an item's error as its client gets it.
func failure(f job.Failure) []byte {
	f.Source, f.Offset, f.Input = "", 0, nil
	data, err := text.JSON(f)
	if err != nil {
		return []byte(`{"kind":"error"}`)
	}
	return data
}

// Ready reports whether a client has results to take, or waits for none.
func (out *outbox) Ready(token string) bool {
	c := out.clients[token]
	return c == nil || len(c.results) > 0 || c.pending == 0
}

// Collect takes results of a client out: as many as fit into one answer. parts are those that have the stored ones.
// more says that there are others. A result of a session that has ended does not show: its item is discarded for its
// client.
func (out *outbox) Collect(token string, now time.Time) (results []wire.ItemResult, parts []wire.StoredPart, more bool) {
	out.now = now
	out.expire()
	c := out.clients[token]
	if c == nil {
		return nil, nil, false
	}
	n, _ := out.fitting(c)
	var last *wire.StoredPart // items of one batch come together
	for _, k := range c.results[:n] {
		r := out.shown(k.ItemResult)
		if r.Part != nil {
			if r.Part != last {
				last, parts = r.Part, append(parts, *r.Part)
			}
			r.At, r.Part = len(parts), nil
		}
		results = append(results, r)
		out.held -= k.size
	}
	out.taken(c, n)
	return results, parts, len(c.results) > 0
}

// shown returns a result as its client gets it.
func (out *outbox) shown(r wire.ItemResult) wire.ItemResult {
	if r.Session < out.session {
		return wire.ItemResult{Item: r.Item, Session: r.Session, Discarded: true}
	}
	return r
}

// fitting returns how many of a client's results fit into one answer, at least one if there are any, and how many bytes
// that has at most.
func (out *outbox) fitting(c *client) (n, size int) {
	var last *wire.StoredPart
	for n < len(c.results) && n < wire.MaxExchangeItems {
		r := out.shown(c.results[n].ItemResult)
		more := r.Size()
		if r.Part != nil && r.Part != last {
			last = r.Part
			more += r.Part.Size()
		}
		if n > 0 && size+more > wire.MaxAnswer {
			break
		}
		size += more
		n++
	}
	return n, size
}

// AnswerSize returns the most bytes of what [Intake.Collect] returns next for a client.
func (out *outbox) AnswerSize(token string) int {
	c := out.clients[token]
	if c == nil {
		return 0
	}
	_, size := out.fitting(c)
	return size
}

// Pending returns how many items of a client have no outcome.
func (out *outbox) Pending(token string) int {
	if c := out.clients[token]; c != nil {
		return c.pending
	}
	return 0
}

// Unclaimed reports whether results wait for their clients.
func (out *outbox) Unclaimed() bool { return out.kept > 0 }
