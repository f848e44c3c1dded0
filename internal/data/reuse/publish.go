package reuse

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"

	"golang.org/x/sync/errgroup"

	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
)

// bucketItems is about how many items a bucket has.
const bucketItems = 256

// maxSorted is how many items are put into buckets at once, six or seven bytes each; two times as many are held. With
// more items the notes are read several times.
var maxSorted = uint64(4_000_000) // tests take fewer

const (
	resultsSuffix = ".results"
	indexSuffix   = ".index"
)

// Results are what a run leaves for the next one.
type Results struct {
	Ref   wire.Ref
	Reuse *wire.Reuse
	// Dir is the run's store; To is where the index goes.
	Dir, To store.Dir
	// Entries calls fn with what the run has accepted, in order, until it returns an error.
	Entries func(ctx context.Context, fn func(ledger.OwnedEntry) error) error
	Items   int64 // how many they have
	Reused  int64 // of these items, with a result of the earlier run
	Bytes   int64 // of their results
	// Before is an index of the same store whose results these are added to; nil: there is none.
	Before *wire.ReuseIndex
}

// Publish makes the results the ones that the next run takes, and removes those that it took until now. It does nothing
// if a repetition has done it already. The parts of the run, with their notes, must still be there. It returns how many
// items of the earlier run no item of this one has matched.
func (r *Results) Publish(ctx context.Context) (gone int64, err error) {
	of, err := Current(ctx, r.To)
	switch b := r.Before; {
	case err != nil:
		return 0, err
	case of != nil && of.Run == r.Ref.Run && r.there(ctx, of):
		return of.Gone, nil
	case b != nil && (of == nil || of.Index != b.Index):
		return 0, nil // another run has left its own meanwhile
	}
	var p *publishing
	for try := range 2 {
		p = &publishing{Results: r, ctx: ctx, prefix: Folder + ledger.NewToken()}
		if err := p.keepOrPublish(); err != nil {
			p.discard()
			return 0, fmt.Errorf("keeping the results for a later run: %w", err)
		}
		if try > 0 || r.there(ctx, &p.of) { // otherwise another attempt at it has removed these before they were named
			break
		}
	}
	_, err = r.To.Sweep(ctx, Folder, func(key string) bool {
		return key == currentKey || key == p.of.Index || key == p.of.Results
	})
	return p.of.Gone, err
}

// discard removes what the attempt has written, unless it may be what the next run takes: whoever names another index
// removes that.
func (p *publishing) discard() {
	if p.named {
		return
	}
	for _, suffix := range []string{resultsSuffix, indexSuffix} {
		_ = p.To.Delete(context.WithoutCancel(p.ctx), p.prefix+suffix)
	}
}

// there reports whether an index has its objects: an attempt that was given up may have named it, and another one
// removed these.
func (r *Results) there(ctx context.Context, of *wire.ReuseIndex) bool {
	_, indexErr := r.To.Stat(ctx, of.Index)
	_, resultsErr := r.To.Stat(ctx, of.Results)
	return indexErr == nil && (resultsErr == nil || of.ResultsBytes == 0)
}

// publishing is one attempt to publish.
type publishing struct {
	*Results
	ctx    context.Context
	prefix string // of the keys
	named  bool   // the index is being named: it may be the one that the next run takes
	of     wire.ReuseIndex

	at      int64           // bytes of blocks
	list    []byte          // of the blocks
	counts  []uint64        // by bucket: of its items
	seen    Seen            // items of the earlier run
	damaged map[string]bool // parts whose notes are
}

func (p *publishing) keepOrPublish() error {
	same, err := p.unchanged()
	if err != nil {
		return err
	}
	if !same {
		return p.publish()
	}
	p.of = *p.Reuse.From
	p.of.Run, p.of.Job, p.of.Gone = p.Ref.Run, p.Ref.Job, 0
	return p.name()
}

// unchanged reports whether all items are those of the index in the store, in their order, with its results.
func (p *publishing) unchanged() (bool, error) {
	from := p.Reuse.From
	if from == nil || p.Reuse.Adds || from.Location != p.To.Location() || p.Reused != p.Items || p.Items != from.Items {
		return false, nil
	}
	next := int64(0)
	notes := noteReader{sums: true, ranges: func(matched ranges) error {
		for _, r := range matched {
			if r.first != next {
				return errEnough
			}
			next += r.count
		}
		return nil
	}}
	err := p.Entries(p.ctx, func(e ledger.OwnedEntry) error { return notes.read(p.ctx, p.Dir, e, nil) })
	if err != nil && !errors.Is(err, errEnough) && !errors.Is(err, errDamaged) {
		return false, err
	}
	of, err := Current(p.ctx, p.To)
	return err == nil && next == p.Items && of != nil && of.Index == from.Index, err
}

func (p *publishing) publish() error {
	if err := p.begin(); err != nil {
		return err
	}
	both, ctx := errgroup.WithContext(p.ctx)
	both.Go(func() error { return trap.Call("joining results", func() error { return p.writeResults(ctx) }) })
	both.Go(func() error { return trap.Call("writing an index", func() error { return p.writeIndex(ctx) }) })
	if err := both.Wait(); err != nil {
		return err
	}
	p.of.Gone = p.gone()
	return p.name()
}

// name makes the index the one that the next run takes.
func (p *publishing) name() error {
	p.named = true
	return ledger.WhileCurrent(p.ctx, p.Ref, p.Dir, func(ctx context.Context) error {
		of, err := Current(ctx, p.To)
		if err != nil {
			return err
		}
		if of != nil && of.Run == p.Ref.Run && p.there(ctx, of) { // another attempt has been quicker
			p.of = *of
			return nil
		}
		return name(ctx, p.To, &p.of)
	})
}

// begin says what the index is of.
func (p *publishing) begin() error {
	r := p.Reuse
	p.of = wire.ReuseIndex{
		Format: wire.ReuseFormat, Location: p.To.Location(), Job: p.Ref.Job, Run: p.Ref.Run,
		Key: r.Key, Changed: r.Changed, Version: r.Version, Form: r.Form, HashKey: r.HashKey,
		Results: p.prefix + resultsSuffix, Index: p.prefix + indexSuffix, ResultsBytes: p.Bytes,
	}
	most := p.Items
	if p.Before != nil {
		most += p.Before.Items
		p.of.ResultsBytes += p.Before.ResultsBytes
	}
	p.of.BucketBits = min(bits.Len64(uint64(most)/bucketItems), maxBucketBits)
	p.of.Wide = most > math.MaxUint32
	p.counts, p.damaged = make([]uint64, 1<<p.of.BucketBits), map[string]bool{}
	if of := r.From; of != nil && !r.Adds {
		p.seen = NewSeen(of.Items)
	}
	return nil
}

// writeResults joins the results: those of before, and those of the parts.
func (p *publishing) writeResults(ctx context.Context) error {
	joining, err := store.BeginJoin(ctx, p.To, p.of.Results, store.JoinOptions{Size: p.of.ResultsBytes})
	if err != nil {
		return err
	}
	defer joining.Abort() // does nothing after the end of the Join
	if b := p.Before; b != nil && b.ResultsBytes > 0 {
		before := store.Piece{Key: b.Results, Length: b.ResultsBytes, Sum: b.ResultsSum}
		if err := joining.Append(ctx, p.To, func(yield func(store.Piece, error) bool) { yield(before, nil) }); err != nil {
			return err
		}
	}
	joined, err := store.Join(ctx, p.Dir, p.parts, p.To, p.of.Results, store.JoinOptions{Begun: joining})
	p.of.ResultsBytes, p.of.ResultsSum = joined.Bytes, joined.Sum
	return err
}

// parts gives the results of the parts.
func (p *publishing) parts(yield func(store.Piece, error) bool) {
	err := p.Entries(p.ctx, func(e ledger.OwnedEntry) error {
		if e.Bytes > 0 && !yield(ledger.PieceOf(e.Entry, e.Owner), nil) {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		yield(store.Piece{}, err)
	}
}

// writeIndex writes the index.
func (p *publishing) writeIndex(ctx context.Context) error {
	w, err := p.To.Create(ctx, p.of.Index)
	if err != nil {
		return err
	}
	defer w.Abort()
	out := bufio.NewWriterSize(w, 256<<10)
	if err := p.writeBlocks(out); err != nil {
		return err
	}
	if _, err := out.Write(p.list); err != nil {
		return err
	}
	if err := p.writeBuckets(out); err != nil {
		return err
	}
	ends := p.ends()
	if _, err := out.Write(ends); err != nil {
		return err
	}
	p.of.ListsSum = crc32.Update(crc32.Checksum(p.list, wire.CRC32C), wire.CRC32C, ends)
	if err := out.Flush(); err != nil {
		return err
	}
	return w.Commit()
}

// writeBlocks writes the blocks, lists them, and counts the items of each bucket.
func (p *publishing) writeBlocks(out *bufio.Writer) error {
	add := func(data []byte, h *head, results int64) error {
		for _, n := range [...]int64{p.of.Items, p.at, results} {
			p.list = binary.LittleEndian.AppendUint64(p.list, uint64(n))
		}
		for i := range h.count {
			p.counts[bucketOf(h.id(i), p.of.BucketBits)]++
		}
		p.of.Items += int64(h.count)
		p.of.Kept += int64(h.count - h.none())
		p.of.Blocks++
		p.at += int64(len(data))
		_, err := out.Write(data)
		return err
	}
	see := func(matched ranges) error {
		for _, r := range matched {
			p.seen.Add(r.first, r.count)
		}
		return nil
	}
	err := p.eachBlock(noteReader{ranges: see}, true, add)
	p.of.BlockBytes = p.at
	return err
}

// eachBlock calls fn with the blocks of all parts, which notes reads, and where the results of each begin. With verify
// it finds out first which parts are damaged: these have none.
func (p *publishing) eachBlock(notes noteReader, verify bool, fn func(data []byte, h *head, results int64) error) error {
	base := int64(0)
	if p.Before != nil {
		if err := eachBefore(p.ctx, p.To, p.Before, fn); err != nil {
			return err
		}
		base = p.Before.ResultsBytes
	}
	var results int64
	notes.block = func(data []byte, h *head) error {
		err := fn(data, h, results)
		results += h.bytes
		return err
	}
	return p.Entries(p.ctx, func(e ledger.OwnedEntry) error {
		results = base
		base += e.Bytes
		if verify {
			if err := notes.verify(p.ctx, p.Dir, e, p.damaged); err != nil {
				return err
			}
		}
		return notes.read(p.ctx, p.Dir, e, p.damaged)
	})
}

// gone counts the items of the earlier run that have a result and that no item has matched.
func (p *publishing) gone() int64 {
	if p.seen == nil {
		return 0
	}
	return max(0, p.Reuse.From.Kept-p.seen.Count())
}

// eachBefore calls fn with the blocks of an index.
func eachBefore(ctx context.Context, dir store.Dir, of *wire.ReuseIndex, fn func(data []byte, h *head, results int64) error) error {
	x, err := Open(ctx, dir, of)
	if err != nil || x == nil {
		return err
	}
	blocks := window{dir: dir, key: of.Index, end: of.BlockBytes}
	for i := range of.Blocks {
		where := x.block(i)
		data, err := blocks.read(ctx, where.from, where.to-where.from)
		if err != nil {
			return err
		}
		h, err := headOf(data, true)
		if err != nil {
			continue
		}
		if err := fn(data, &h, where.results); err != nil {
			return err
		}
	}
	return nil
}

// writeBuckets writes the items of each bucket, some buckets at a time: the next ones are sorted while some are written.
func (p *publishing) writeBuckets(out *bufio.Writer) error {
	var before *sorting
	for first := 0; first < len(p.counts); {
		last, items := first, uint64(0)
		for last < len(p.counts) && (last == first || items+p.counts[last] <= maxSorted) {
			items += p.counts[last]
			last++
		}
		next := p.sortAside(items, uint64(first), uint64(last))
		if err := before.write(out); err != nil {
			<-next.ended // it reads the notes
			return err
		}
		before, first = next, last
	}
	return before.write(out)
}

// sorting is some buckets that are being sorted.
type sorting struct {
	data  []byte
	ended <-chan error
}

// sortAside sorts some buckets in a goroutine.
func (p *publishing) sortAside(items, first, last uint64) *sorting {
	s := &sorting{data: make([]byte, items*uint64(itemBytes(&p.of)))}
	s.ended = trap.Go("sorting items into buckets", func() error { return p.sort(s.data, first, last) })
	return s
}

// write waits for the buckets, and writes them. A nil sorting has none.
func (s *sorting) write(out *bufio.Writer) error {
	if s == nil {
		return nil
	}
	if err := <-s.ended; err != nil {
		return err
	}
	_, err := out.Write(s.data)
	return err
}

// sort puts the items of the buckets from first on, and before last, into sorted.
func (p *publishing) sort(sorted []byte, first, last uint64) error {
	size := uint64(itemBytes(&p.of))
	next := make([]uint64, last-first) // by bucket: where its next item goes
	at := uint64(0)
	for i := range next {
		next[i] = at
		at += p.counts[first+uint64(i)] * size
	}
	item := uint64(0)
	return p.eachBlock(noteReader{}, false, func(_ []byte, h *head, _ int64) error {
		for i := range h.count {
			id := h.id(i)
			if bucket := bucketOf(id, p.of.BucketBits); bucket >= first && bucket < last {
				to := sorted[next[bucket-first]:]
				if uint64(len(to)) < size {
					return errDamaged // the notes are not what they were
				}
				binary.LittleEndian.PutUint16(to, fpOf(id, p.of.BucketBits))
				binary.LittleEndian.PutUint32(to[fpBytes:], uint32(item))
				if p.of.Wide {
					to[fpBytes+4] = byte(item >> 32)
				}
				next[bucket-first] += size
			}
			item++
		}
		return nil
	})
}

// ends returns the list of the buckets.
func (p *publishing) ends() []byte {
	var list []byte
	end := uint64(0)
	for _, n := range p.counts {
		end += n
		if p.of.Wide {
			list = binary.LittleEndian.AppendUint64(list, end)
		} else {
			list = binary.LittleEndian.AppendUint32(list, uint32(end))
		}
	}
	return list
}

// errEnough ends a walk over entries.
var errEnough = errors.New("no more wanted")
