package ledger

import (
	"cmp"
	"context"
	"slices"

	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
)

// fanOut is how many manifests in a row are read one by one at most: the next one lists them in its head. So do, level
// by level, as many manifests with such lists. A chain of a million is found with some hundred reads.
const fanOut = 64

// rank orders nodes that begin with the same ordinal: those that list others come first.
func rank(n *wire.Node) int {
	if n.Alone {
		return 0
	}
	return n.Level
}

// index completes the head of a manifest that names those at previous. If that makes too many in a row that no index
// lists, the head lists them, and names what comes before them.
func index(ctx context.Context, h *wire.Head, dir store.Dir, previous []string) error {
	read := map[string]wire.Head{}
	for level := 0; ; level++ {
		h.Previous, h.Level, h.Row = previous, level, 1
		for _, key := range previous {
			head, ok := read[key]
			if !ok {
				var err error
				if head, err = ReadHead(ctx, dir, key); store.Permanent(err) {
					return nil // whoever reads the chain says so
				} else if err != nil {
					return err
				}
				read[key] = head
			}
			if head.Level == level {
				h.Row += head.Row
			}
		}
		if h.Row < fanOut {
			return nil
		}
		before, err := list(ctx, h, dir, level, previous, read)
		if err != nil {
			return err
		}
		previous = before
	}
}

// list lists the manifests of a level that are reached over such manifests alone, and returns those that come before
// them.
func list(ctx context.Context, h *wire.Head, dir store.Dir, level int, todo []string, read map[string]wire.Head) (before []string, err error) {
	seen := map[string]bool{}
	for todo = slices.Clone(todo); len(todo) > 0; {
		key := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[key] {
			continue
		}
		seen[key] = true
		head, ok := read[key]
		if !ok {
			if head, err = ReadHead(ctx, dir, key); err != nil {
				return nil, err
			}
			read[key] = head
		}
		if head.Level > level {
			before = append(before, key)
			continue
		}
		todo = append(todo, head.Previous...)
		h.Index = append(h.Index, nodeOf(head, key))
	}
	slices.SortFunc(h.Index, func(a, b wire.Node) int { return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Key, b.Key)) })
	slices.Sort(before)
	return before, nil
}

// node is the line of an index for a manifest.
func nodeOf(h wire.Head, key string) wire.Node {
	n := wire.Node{Key: key, Head: h}
	if h.Level > 0 {
		n.Head = wire.Head{First: h.First, End: h.End, Level: h.Level}
		for _, below := range h.Index {
			n.First, n.End = min(n.First, below.First), max(n.End, below.End)
		}
	}
	n.Index, n.Previous, n.Row = nil, nil, 0
	return n
}
