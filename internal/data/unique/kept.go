package unique

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"

	"github.com/stint-run/stint/internal/data/reuse"
	"github.com/stint-run/stint/internal/wire"
)

// outcome is what an item has come to.
type outcome struct {
	line   *wire.ErrorLine // why it has no result; nil: it has one
	lines  int64           // of the result
	result []byte          // with the ends of its lines
	again  bool            // a later run may take the result
}

// firsts are the items that twins wait for: a bit for each item of the run, and how many there are before each word of
// rankWords.
type firsts struct {
	reuse.Seen
	ranks []int64
}

const rankWords = 8

// rank counts the items before the one with an ordinal, once all are known.
func (f *firsts) rank(ordinal int64) int64 {
	if f.ranks == nil {
		sum := int64(0)
		for i, word := range f.Seen {
			if i%rankWords == 0 {
				f.ranks = append(f.ranks, sum)
			}
			sum += int64(bits.OnesCount64(word))
		}
	}
	word := ordinal / 64
	rank := f.ranks[word/rankWords]
	for i := word / rankWords * rankWords; i < word; i++ {
		rank += int64(bits.OnesCount64(f.Seen[i]))
	}
	return rank + int64(bits.OnesCount64(f.Seen[word]&(1<<(ordinal%64)-1)))
}

// any reports whether there is one of some ordinals.
func (f *firsts) any(from, before int64) bool {
	for o := from; o < before; o++ {
		if o%64 == 0 && f.Seen[o/64] == 0 {
			o += 63
			continue
		}
		if f.Has(o) {
			return true
		}
	}
	return false
}

// kept are the outcomes of the firsts, in a temporary file, and where each of them begins, in another one.
type kept struct {
	firsts   *firsts
	count    int64
	starts   scratch
	outcomes scratch
	in, out  []byte // what is read and written last
}

// Of an outcome the file has a byte that says what it is, how many lines the result has, and how long the rest is, as
// varints, and the rest: the result, or the line in JSON.
const (
	keptResult byte = iota
	keptForNow      // a result that no later run takes
	keptLine
)

// add keeps the outcome of the next one of the firsts.
func (k *kept) add(o outcome) (err error) {
	kind, rest := keptResult, o.result
	if o.line != nil {
		kind = keptLine
		if rest, err = json.Marshal(o.line); err != nil {
			return err
		}
	} else if !o.again {
		kind = keptForNow
	}
	k.out = binary.AppendUvarint(append(k.out[:0], kind), uint64(o.lines))
	k.out = append(binary.AppendUvarint(k.out, uint64(len(rest))), rest...)
	at, err := k.outcomes.write(k.out)
	if err != nil {
		return err
	}
	_, err = k.starts.write(binary.LittleEndian.AppendUint64(k.out[:0], uint64(at)))
	k.count++
	return err
}

// keptRead is how many bytes are read at once.
const keptRead = 4 << 10

// of returns the outcome of one of the firsts that has been added. It is valid until the next call.
func (k *kept) of(ordinal int64) (o outcome, err error) {
	rank := k.firsts.rank(ordinal)
	if !k.firsts.Has(ordinal) || rank >= k.count {
		return o, fmt.Errorf("item %d has no outcome that another one could have", ordinal)
	}
	var start [8]byte
	if _, err := k.starts.read(start[:], 8*rank); err != nil {
		return o, err
	}
	at := int64(binary.LittleEndian.Uint64(start[:]))
	k.in = slices.Grow(k.in[:0], keptRead)[:keptRead]
	n, err := k.outcomes.read(k.in, at)
	if err != nil {
		return o, err
	}
	lines, a := binary.Uvarint(k.in[1:n])
	size, b := binary.Uvarint(k.in[1+max(0, a) : n])
	if a <= 0 || b <= 0 {
		return o, fmt.Errorf("the outcome of item %d is not what was kept", ordinal)
	}
	head := 1 + a + b
	kind, rest := k.in[0], k.in[head:n]
	if missing := int(size) - len(rest); missing > 0 {
		k.in = slices.Grow(k.in[:n], missing)[:n+missing]
		if _, err := k.outcomes.read(k.in[n:], at+int64(n)); err != nil {
			return o, err
		}
		rest = k.in[head:]
	}
	rest = rest[:size]
	if kind == keptLine {
		o.line = &wire.ErrorLine{}
		return o, json.Unmarshal(rest, o.line)
	}
	return outcome{lines: int64(lines), result: rest, again: kind == keptResult}, nil
}

func (k *kept) close() {
	k.starts.close()
	k.outcomes.close()
}
