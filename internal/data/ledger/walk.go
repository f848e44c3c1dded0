package ledger

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"sync"

	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
)

// walk finds the manifests of a chain, in order, from an ordinal on. It reads the heads of those that no index lists, a
// few dozen, and then one index after the other, when their turn has come. So it holds some hundred heads however long
// the chain is.
type walk struct {
	dir  store.Dir
	from int64             // entries that end before it are not wanted; 0: all are
	seen func(string) bool // manifests that are not wanted, and neither is what they reach; nil: none
	read map[string]root   // manifests that no index lists
	text map[string]string // one copy of each text that many heads have
	todo nodeHeap
	last wire.Node // that came last
}

// root is a manifest that no index lists, and what it names.
type root struct {
	wire.Node
	previous []string
}

// newWalk begins at the heads of a chain. was are the roots of an earlier walk.
func newWalk(ctx context.Context, dir store.Dir, heads []string, from int64, seen func(string) bool, was map[string]root) (*walk, error) {
	w := &walk{dir: dir, from: from, seen: seen, read: map[string]root{}, text: map[string]string{}}
	for todo := slices.Clone(heads); len(todo) > 0; {
		key := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if _, ok := w.read[key]; ok || seen != nil && seen(key) {
			continue
		}
		r, ok := was[key]
		if !ok {
			head, err := ReadHead(ctx, dir, key)
			if err != nil {
				return nil, err
			}
			r = root{nodeOf(head, key), head.Previous}
			r.Below = head.Below
		}
		w.read[key] = r
		if from > 0 && r.Below > 0 && r.Below <= from {
			continue
		}
		w.push(r.Node)
		todo = append(todo, r.previous...)
	}
	return w, nil
}

// expand adds a manifest that lists others, and these.
func (w *walk) expand(key string, head wire.Head) {
	for _, n := range head.Index {
		w.push(n)
	}
	head.Index, head.Previous = nil, nil
	w.push(wire.Node{Key: key, Head: head, Alone: true})
}

func (w *walk) push(n wire.Node) {
	if w.from > 0 && n.End <= w.from {
		return
	}
	for _, text := range []*string{&n.Run, &n.Sources} {
		if same, ok := w.text[*text]; ok {
			*text = same
		} else {
			w.text[*text] = *text
		}
	}
	heap.Push(&w.todo, n)
}

// each calls fn with the manifests by the order of InOrder, until it returns an error. One that several list comes
// once: whatever lists it begins no later, and so the lists come before it.
func (w *walk) each(ctx context.Context, fn func(Link) error) error {
	for len(w.todo) > 0 {
		n := heap.Pop(&w.todo).(wire.Node)
		if n.Key == w.last.Key && n.Alone == w.last.Alone || w.seen != nil && w.seen(n.Key) {
			continue
		}
		w.last = n
		if !n.Alone && n.Level > 0 {
			head, err := ReadHead(ctx, w.dir, n.Key)
			if err != nil {
				return err
			}
			w.expand(n.Key, head)
			continue
		}
		if err := fn(Link{n.Key, n.Head}); err != nil {
			return err
		}
	}
	return nil
}

// nodeHeap has the node on top that comes next: the one that begins first, and of these the one that lists most.
type nodeHeap []wire.Node

func (h nodeHeap) Len() int      { return len(h) }
func (h nodeHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h nodeHeap) Less(i, j int) bool {
	a, b := &h[i], &h[j]
	return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(rank(b), rank(a)), cmp.Compare(a.Key, b.Key)) < 0
}
func (h *nodeHeap) Push(n any) { *h = append(*h, n.(wire.Node)) }
func (h *nodeHeap) Pop() any {
	last := len(*h) - 1
	n := (*h)[last]
	(*h)[last] = wire.Node{}
	*h = (*h)[:last]
	return n
}

// Reader reads the entries of a chain from a cursor on, again and again while the chain grows. It remembers the heads
// that no index lists, so that each is read once. The zero value is ready. It is not safe for concurrent use.
type Reader struct{ roots map[string]root }

// Entries calls yield with the entries of the chain that end behind the ordinal from, in the order of their ordinals,
// until it returns false. It reads a manifest when its turn has come: memory holds the entries of those that overlap,
// and some hundred heads.
func (r *Reader) Entries(ctx context.Context, dir store.Dir, heads []string, from int64, yield func(OwnedEntry) bool) error {
	w, err := newWalk(ctx, dir, heads, from, nil, r.roots)
	if err != nil {
		return err
	}
	r.roots = w.read
	return inTurn(ctx, dir, w.each, func(e OwnedEntry) error {
		if e.End() > from && !yield(e) {
			return errEnough
		}
		return nil
	})
}

// Along returns the manifests of a chain. Each time that they are wanted it walks along the chain: it reads an index
// for each 64 of them, and holds some hundred heads, however long the chain is.
func Along(dir store.Dir, heads []string) Links { return &along{dir: dir, heads: heads} }

type along struct {
	dir   store.Dir
	heads []string

	mu    sync.Mutex
	roots map[string]root // that an earlier walk has read
}

func (a *along) Each(ctx context.Context, fn func(Link) error) error {
	a.mu.Lock()
	was := a.roots
	a.mu.Unlock()
	w, err := newWalk(ctx, a.dir, a.heads, 0, nil, was)
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.roots = w.read
	a.mu.Unlock()
	return w.each(ctx, fn)
}
