package reuse

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"

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

// Result adds the next item, with all bytes of its result. Items must be added in their order.
func (n *Notes) Result(ctx context.Context, d Digest, result []byte) error {
	n.block.add(d, result, false)
	return n.flush(ctx)
}

// Bytes adds a result that no later run takes.
func (n *Notes) Bytes(ctx context.Context, result []byte) error {
	return n.Result(ctx, Digest{}, result)
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
	return n.spill(ctx)
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
	return n.spill(ctx)
}

// spill writes what is encoded, if it is worth a write.
func (n *Notes) spill(ctx context.Context) error {
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

// noteReader reads the notes of parts, one after the other, with one buffer for all.
type noteReader struct {
	buffer *bufio.Reader
	frame  []byte
	sums   bool                             // blocks are compared with their checksums
	block  func(data []byte, h *head) error // both are valid during the call
	ranges func(ranges) error
}

// read reads the notes of a part. It passes over a part that is in damaged.
func (r *noteReader) read(ctx context.Context, dir store.Dir, e ledger.OwnedEntry, damaged map[string]bool) error {
	if damaged[e.Part] {
		return nil
	}
	_, err := r.all(ctx, dir, e)
	return err
}

// verify puts a part into damaged if its notes are not whole.
func (r *noteReader) verify(ctx context.Context, dir store.Dir, e ledger.OwnedEntry, damaged map[string]bool) error {
	whole := noteReader{buffer: r.buffer, sums: true}
	results, err := whole.all(ctx, dir, e)
	r.buffer = whole.buffer
	if errors.Is(err, errDamaged) || err == nil && results >= 0 && results != e.Bytes {
		damaged[e.Part] = true
		return nil
	}
	return err
}

// all reads all notes of a part, and returns the bytes of its results; -1: it has no notes.
func (r *noteReader) all(ctx context.Context, dir store.Dir, e ledger.OwnedEntry) (results int64, err error) {
	in, err := dir.Open(ctx, ledger.DigestsKey(e.Owner, e.Entry), 0, -1)
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return 0, err
	}
	defer in.Close()
	if r.buffer == nil {
		r.buffer = bufio.NewReaderSize(in, 256<<10)
	} else {
		r.buffer.Reset(in)
	}
	return r.frames()
}

// frames reads what there is, and returns the bytes of all results.
func (r *noteReader) frames() (results int64, err error) {
	for {
		isRanges, err := r.next()
		if err == io.EOF {
			return results, nil
		}
		if err == nil && isRanges {
			err = r.takeRanges()
		} else if err == nil {
			var n int64
			n, err = r.takeBlock()
			results += n
		}
		if err != nil {
			return 0, err
		}
	}
}

// next reads the next frame.
func (r *noteReader) next() (isRanges bool, err error) {
	var size [4]byte
	if _, err := io.ReadFull(r.buffer, size[:]); err != nil {
		return false, cutShort(err)
	}
	mark := binary.LittleEndian.Uint32(size[:])
	n := int(mark &^ ofRanges)
	if n > maxFrame {
		return false, errDamaged
	}
	r.frame = slices.Grow(r.frame[:0], n)[:n]
	if _, err := io.ReadFull(r.buffer, r.frame); err == io.EOF {
		return false, errDamaged
	} else if err != nil {
		return false, cutShort(err)
	}
	return mark&ofRanges != 0, nil
}

// maxFrame bounds a frame: a block takes at most 7 KiB, and ranges, of which each item may be one, 20 bytes an item.
const maxFrame = 256 << 20

// cutShort returns errDamaged if something has ended in the middle.
func cutShort(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errDamaged
	}
	return err
}

func (r *noteReader) takeBlock() (results int64, err error) {
	h, err := headOf(r.frame, r.sums)
	if err == nil && r.block != nil {
		err = r.block(r.frame, &h)
	}
	return h.bytes, err
}

func (r *noteReader) takeRanges() error {
	var matched ranges
	if err := matched.decode(r.frame); err != nil || r.ranges == nil {
		return err
	}
	return r.ranges(matched)
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
		if err := n.spill(ctx); err != nil {
			return err
		}
	}
	n.block = blockWriter{}
	return nil
}
