package ledger

import (
	"context"
	"iter"
	"path"
	"strconv"
	"strings"

	"github.com/stint-run/stint/internal/data/store"
)

// Accepted reports which parts of a run a chain names, for keys that come in their byte order, as [store.Dir.Sweep]
// gives them. That is the order of the ordinals, so that it holds the parts of one ordinal at a time, and
// some thousand entries as [Entries] does. One goroutine may use it; the caller must close it.
type Accepted struct {
	run     string
	results bool
	next    func() (OwnedEntry, error, bool)
	stop    func()

	ahead *OwnedEntry // read, behind the ordinal at hand; nil: read on
	at    int64       // the ordinal at hand
	keys  map[string]bool
	err   error
}

// NewAccepted returns what the chain names of a run: the errors of its parts, and their results if they are wanted.
func NewAccepted(ctx context.Context, dir store.Dir, links Links, run string, results bool) *Accepted {
	a := &Accepted{run: run, results: results, at: -1, keys: map[string]bool{}}
	a.next, a.stop = iter.Pull2(func(yield func(OwnedEntry, error) bool) {
		err := EntriesUntil(ctx, dir, links, func(e OwnedEntry) bool { return yield(e, nil) })
		if err != nil {
			yield(OwnedEntry{}, err)
		}
	})
	return a
}

// Has reports whether the chain names the part at key. What is no part it does not name; a part that comes out of
// order, and all once the chain cannot be read, it does.
func (a *Accepted) Has(key string) bool {
	if path.Dir(key) != path.Join(a.run, "parts") {
		return false
	}
	digits, _, _ := strings.Cut(path.Base(key), "-")
	first, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return false
	}
	if first < a.at || !a.moveTo(first) {
		return true
	}
	return a.keys[key]
}

// moveTo collects the keys of the parts that begin with an ordinal. It is false if the chain cannot be read.
func (a *Accepted) moveTo(first int64) bool {
	if first > a.at {
		a.at = first
		clear(a.keys)
	}
	for a.err == nil {
		if a.ahead == nil {
			e, err, ok := a.next()
			if !ok {
				break
			}
			if err != nil {
				a.err = err
				break
			}
			a.ahead = &e
		}
		if a.ahead.First > first {
			break
		}
		if e := *a.ahead; e.First == first && e.Owner == a.run {
			if e.ErrBytes > 0 {
				a.keys[ErrorsKey(e.Owner, e.Entry)] = true
			}
			if a.results && e.Bytes > 0 {
				a.keys[ResultsKey(e.Owner, e.Entry)] = true
			}
		}
		a.ahead = nil
	}
	return a.err == nil
}

// Close frees what reads the chain. It returns the error of reading it.
func (a *Accepted) Close() error {
	a.stop()
	return a.err
}
