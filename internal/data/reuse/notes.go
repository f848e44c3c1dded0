package reuse

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
)

// writeAt is how many bytes of notes are written at once.
const writeAt = 64 << 10

// Notes writes the digests of a part's items beside the part: blocks, each behind its length in four bytes, and at the
// end which items of the earlier run they have matched. One goroutine may use it.
type Notes struct {
	out     ledger.PartWriter
	block   blockWriter
	data    []byte // encoded, and not yet written
	matched ranges
}

// NewNotes returns the notes of an entry of the run.
func NewNotes(dir store.Dir, run string, e wire.Entry) *Notes {
	return &Notes{out: ledger.PartWriter{Dir: dir, Key: ledger.DigestsKey(run, e), Bulk: true}}
}

// Result adds the next item, with all bytes of its result. Items must be added in their order; one without a digest
// must not have a result.
func (n *Notes) Result(ctx context.Context, d Digest, result []byte) error {
	n.block.add(d, result, false)
	return n.flush(ctx)
}

// None adds the next item, which has no result.
func (n *Notes) None(ctx context.Context, d Digest) error {
	n.block.add(d, nil, true)
	return n.flush(ctx)
}

// Copied adds items that are as they were, with the results that they had.
func (n *Notes) Copied(ctx context.Context, c Copied) error {
	n.matched.addAll(c.First, int64(c.Count))
	if c.Count < c.block.count() {
		return n.each(ctx, c)
	}
	if n.block.count > 0 {
		n.encode()
	}
	n.frame(0, func(data []byte) []byte { return append(data, c.block.data...) })
	if len(n.data) < writeAt {
		return nil
	}
	return n.write(ctx)
}

// each is Copied of items that are not a whole block.
func (n *Notes) each(ctx context.Context, c Copied) error {
	base, _ := c.block.result(c.from)
	for i := c.from; i < c.from+c.Count; i++ {
		from, to := c.block.result(i)
		if err := n.Result(ctx, c.block.digest(i), c.Results[from-base:to-base]); err != nil {
			return err
		}
	}
	return nil
}

// Matched notes that an item is one that the earlier run had, with a result.
func (n *Notes) Matched(item int64) { n.matched.add(item) }

func (n *Notes) flush(ctx context.Context) error {
	if !n.block.full() {
		return nil
	}
	n.encode()
	if len(n.data) < writeAt {
		return nil
	}
	return n.write(ctx)
}

// encode ends the block.
func (n *Notes) encode() {
	n.frame(0, n.block.appendTo)
}

// ofRanges marks the length of what is no block.
const ofRanges = 1 << 31

// frame appends what append does, behind its length.
func (n *Notes) frame(mark uint32, appendTo func([]byte) []byte) {
	start := len(n.data)
	n.data = appendTo(append(n.data, 0, 0, 0, 0))
	binary.LittleEndian.PutUint32(n.data[start:], uint32(len(n.data)-start-4)|mark)
}

func (n *Notes) write(ctx context.Context) error {
	err := n.out.Write(context.WithoutCancel(ctx), n.data)
	n.data = n.data[:0]
	return err
}

// Commit makes the notes durable.
func (n *Notes) Commit(ctx context.Context) error {
	if n.block.count > 0 {
		n.encode()
	}
	if len(n.matched) > 0 {
		n.frame(ofRanges, n.matched.appendTo)
	}
	if err := n.write(ctx); err != nil {
		return err
	}
	return n.out.Commit()
}

// Close discards the notes, unless they are committed.
func (n *Notes) Close() { n.out.Abort() }

// noted is what notes have: blocks, and ranges.
type noted struct {
	blocks  [][]byte
	matched ranges
}

// readNotes reads the notes of a part. A part without notes, or whose notes are not those of it, has none.
func readNotes(ctx context.Context, dir store.Dir, e ledger.OwnedEntry) (n noted, err error) {
	data, err := dir.Get(ctx, ledger.DigestsKey(e.Owner, e.Entry))
	if errors.Is(err, fs.ErrNotExist) {
		return noted{}, nil
	}
	if err != nil {
		return noted{}, err
	}
	if n.decode(data) != nil || !n.areOf(e) {
		return noted{}, nil
	}
	return n, nil
}

// decode cuts notes into their pieces.
func (n *noted) decode(data []byte) error {
	for len(data) > 0 {
		if len(data) < 4 {
			return errDamaged
		}
		mark := binary.LittleEndian.Uint32(data)
		size := int(mark &^ ofRanges)
		if data = data[4:]; size > len(data) {
			return errDamaged
		}
		if mark&ofRanges == 0 {
			n.blocks = append(n.blocks, data[:size])
		} else if err := n.matched.decode(data[:size]); err != nil {
			return err
		}
		data = data[size:]
	}
	return nil
}

// areOf reports whether the blocks are whole, and have all results of a part.
func (n *noted) areOf(e ledger.OwnedEntry) bool {
	bytes := int64(0)
	for _, data := range n.blocks {
		h, err := headOf(data, true)
		if err != nil {
			return false
		}
		bytes += h.bytes
	}
	return bytes == e.Bytes
}

// ranges are items in the order in which they were added: those that follow one another are one range.
type ranges []itemRange

type itemRange struct{ first, count int64 }

func (r *ranges) add(item int64) { r.addAll(item, 1) }

func (r *ranges) addAll(first, count int64) {
	if n := len(*r); n > 0 && (*r)[n-1].first+(*r)[n-1].count == first {
		(*r)[n-1].count += count
		return
	}
	*r = append(*r, itemRange{first, count})
}

// appendTo encodes them: the distance of each from the end of the one before it, and its length, as varints, and the
// CRC-32C of that.
func (r *ranges) appendTo(data []byte) []byte {
	start, end := len(data), int64(0)
	for _, one := range *r {
		data = binary.AppendUvarint(binary.AppendVarint(data, one.first-end), uint64(one.count))
		end = one.first + one.count
	}
	return binary.LittleEndian.AppendUint32(data, crc32.Checksum(data[start:], wire.CRC32C))
}

func (r *ranges) decode(data []byte) error {
	n := len(data) - 4
	if n < 0 || crc32.Checksum(data[:n], wire.CRC32C) != binary.LittleEndian.Uint32(data[n:]) {
		return errDamaged
	}
	end := int64(0)
	for data = data[:n]; len(data) > 0; {
		distance, a := binary.Varint(data)
		if a <= 0 {
			return errDamaged
		}
		count, b := binary.Uvarint(data[a:])
		if b <= 0 {
			return errDamaged
		}
		*r = append(*r, itemRange{end + distance, int64(count)})
		end += distance + int64(count)
		data = data[a+b:]
	}
	return nil
}

// Stream makes the notes of a batch whose items and results come as lines, at their own pace. The digests are one
// goroutine's, and the results another's.
type Stream struct {
	hasher  *Hasher
	text    bool
	digests []byte
	blocks  []blockWriter // without digests
	open    blockWriter
	part    int64 // bytes of a result that has not ended
}

// NewStream returns notes for so many items, lines of a shape.
func NewStream(h *Hasher, shape *wire.Shape, items int64) *Stream {
	return &Stream{hasher: h, text: records.TextLines(shape), digests: make([]byte, 0, items*digestSize)}
}

// Items adds items as lines, each with its end.
func (s *Stream) Items(lines []byte) {
	for len(lines) > 0 {
		n := bytes.IndexByte(lines, '\n')
		s.digests = s.hasher.OfLine(s.text, lines[:n]).append(s.digests)
		lines = lines[n+1:]
	}
}

// Results adds a piece of the results, each a line.
func (s *Stream) Results(piece []byte) {
	start := 0 // of what the open block's checksum does not have yet
	for at := 0; ; {
		n := bytes.IndexByte(piece[at:], '\n')
		if n < 0 {
			s.part += int64(len(piece) - at)
			break
		}
		at += n + 1
		s.open.lengths = binary.AppendUvarint(s.open.lengths, uint64(s.part+int64(n)+1)+1)
		s.open.bytes += s.part + int64(n) + 1
		s.part = 0
		if s.open.count++; s.open.full() {
			s.open.sum = crc32.Update(s.open.sum, wire.CRC32C, piece[start:at])
			s.blocks = append(s.blocks, s.open)
			s.open = blockWriter{lengths: make([]byte, 0, 2*maxBlockItems)}
			start = at
		}
	}
	s.open.sum = crc32.Update(s.open.sum, wire.CRC32C, piece[start:])
}

// WriteTo writes the notes, once all items and their results have been added.
func (s *Stream) WriteTo(ctx context.Context, n *Notes) error {
	if s.open.count > 0 {
		s.blocks = append(s.blocks, s.open)
	}
	at := 0
	for _, b := range s.blocks {
		size := b.count * digestSize
		b.digests = s.digests[at : at+size]
		at += size
		n.block = b
		n.encode()
		if len(n.data) >= writeAt {
			if err := n.write(ctx); err != nil {
				return err
			}
		}
	}
	n.block = blockWriter{}
	return nil
}
