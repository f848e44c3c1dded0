package intake

import (
	"slices"
	"time"

	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// leastHeld is the least bound of the results that a leg keeps for its clients: see [Intake.mostHeld].
const leastHeld = 1 << 20

// mostHeld bounds the results that a leg keeps for its clients, in bytes. Beyond it, results are in the store only. A client that has
// put all that the feed takes, and is slower than the workers for a while, finds results of that size here, and needs no store.
func (in *Intake) mostHeld() int { return int(max(leastHeld, in.limits.Bytes)) }

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

func (in *Intake) client(token string) *client {
	c := in.clients[token]
	if c == nil {
		c = &client{token: token}
		in.clients[token] = c
		in.order = append(in.order, c)
	}
	return c
}

// give keeps a result for the client.
func (c *client) give(r wire.ItemResult, in *Intake) {
	k := kept{ItemResult: r, size: len(r.Result) + len(r.Failure), since: in.now}
	if in.held+k.size > in.mostHeld() && k.size > 0 {
		in.expire()
	}
	if in.held+k.size > in.mostHeld() && len(r.Result) > 0 {
		k.size -= len(r.Result)
		k.Result, k.Stored = nil, true // the item has its outcome, and its client must not wait for ever
	}
	in.held += k.size
	in.kept++
	c.results = append(c.results, k)
	c.pending-- // last: a client that waits for nothing is forgotten
	for len(c.wanted) > 0 && c.wanted[0].done {
		c.wanted = c.wanted[1:]
	}
}

// expire drops results that have been kept for long enough.
func (in *Intake) expire() {
	for _, c := range slices.Clone(in.order) {
		n := 0
		for n < len(c.results) && in.now.Sub(c.results[n].since) >= in.limits.Keep {
			in.held -= c.results[n].size
			in.unclaimed++
			n++
		}
		in.taken(c, n)
	}
}

// taken removes results of a client, and forgets it if it has nothing more to wait for.
func (in *Intake) taken(c *client, n int) {
	in.kept -= n
	c.results = c.results[n:]
	if c.pending == 0 && len(c.results) == 0 {
		delete(in.clients, c.token)
		in.order = slices.DeleteFunc(in.order, func(o *client) bool { return o == c })
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

// FinishStored gives the items of a batch their outcomes, which lie in that part of the store; nil: it is not known in which.
func (in *Intake) FinishStored(b wire.Batch, part *wire.StoredPart, now time.Time) {
	in.now = now
	for it := range in.of(b) {
		in.finish(it, wire.ItemResult{Stored: true, Part: part})
	}
}

// failure is an item's error as its client gets it.
func failure(f job.Failure) []byte {
	f.Source, f.Offset, f.Input = "", 0, nil
	data, err := text.JSON(f)
	if err != nil {
		return []byte(`{"kind":"error"}`)
	}
	return data
}

// Ready reports whether a client has results to take, or waits for none.
func (in *Intake) Ready(token string) bool {
	c := in.clients[token]
	return c == nil || len(c.results) > 0 || c.pending == 0
}

// Collect takes results of a client out: as many as fit into one answer. parts are those that have the
// stored ones. more says that there are others. A result of a session that has ended does not show: its item is discarded for
// its client.
func (in *Intake) Collect(token string, now time.Time) (results []wire.ItemResult, parts []wire.StoredPart, more bool) {
	in.now = now
	in.expire()
	c := in.clients[token]
	if c == nil {
		return nil, nil, false
	}
	n, _ := in.fitting(c)
	var last *wire.StoredPart // items of one batch come together
	for _, k := range c.results[:n] {
		r := in.shown(k.ItemResult)
		if r.Part != nil {
			if r.Part != last {
				last, parts = r.Part, append(parts, *r.Part)
			}
			r.At, r.Part = len(parts), nil
		}
		results = append(results, r)
		in.held -= k.size
	}
	in.taken(c, n)
	return results, parts, len(c.results) > 0
}

// shown is a result as its client gets it.
func (in *Intake) shown(r wire.ItemResult) wire.ItemResult {
	if r.Session < in.session {
		return wire.ItemResult{Item: r.Item, Session: r.Session, Discarded: true}
	}
	return r
}

// fitting is how many of a client's results fit into one answer, at least one if there are any, and how many bytes that has at most.
func (in *Intake) fitting(c *client) (n, size int) {
	var last *wire.StoredPart
	for n < len(c.results) && n < wire.MaxExchangeItems {
		r := in.shown(c.results[n].ItemResult)
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

// AnswerSize is the most bytes of what [Intake.Collect] returns next for a client.
func (in *Intake) AnswerSize(token string) int {
	c := in.clients[token]
	if c == nil {
		return 0
	}
	_, size := in.fitting(c)
	return size
}

// Pending is how many items of a client have no outcome.
func (in *Intake) Pending(token string) int {
	if c := in.clients[token]; c != nil {
		return c.pending
	}
	return 0
}

// Unclaimed reports whether results wait for their clients.
func (in *Intake) Unclaimed() bool { return in.kept > 0 }
