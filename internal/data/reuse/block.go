package reuse

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/stint-run/stint/internal/wire"
)

// A block has up to that many items, or results of about so many bytes, whichever comes first. One result is read by
// reading those of its block, because their checksum is that of all of them.
const (
	maxBlockItems = 256
	blockBytes    = 16 << 10
)

// A block is encoded as: the number of its items and the bytes of their results, as varints; the CRC-32C of these
// results; the digests; for each item the length of its result plus one, or 0 if it has none, as a varint; the CRC-32C
// of all that.

// block is some items of an index, decoded.
type block struct {
	digests []byte  // of each item
	ends    []int64 // of each item's result, from where the first begins
	none    []bool  // the item has no result
	bytes   int64   // of all results
	sum     uint32  // of all results
	data    []byte  // encoded
}

func (b *block) count() int { return len(b.ends) }

func (b *block) digest(i int) Digest { return digestAt(b.digests[i*digestSize:]) }

// result returns where an item's result lies among those of the block.
func (b *block) result(i int) (from, to int64) {
	if i > 0 {
		from = b.ends[i-1]
	}
	return from, b.ends[i]
}

// writer encodes blocks: of each it is told the items one after the other.
type blockWriter struct {
	digests, lengths []byte
	count            int
	bytes            int64
	sum              uint32
}

// add adds an item and its result; none: it has no result.
func (w *blockWriter) add(d Digest, result []byte, none bool) {
	w.digests = d.append(w.digests)
	w.length(result, none)
}

// length adds an item's result alone.
func (w *blockWriter) length(result []byte, none bool) {
	w.count++
	if none {
		w.lengths = append(w.lengths, 0)
		return
	}
	w.lengths = binary.AppendUvarint(w.lengths, uint64(len(result))+1)
	w.bytes += int64(len(result))
	w.sum = crc32.Update(w.sum, wire.CRC32C, result)
}

func (w *blockWriter) full() bool { return w.count >= maxBlockItems || w.bytes >= blockBytes }

// appendTo appends the block to data, and begins the next one.
func (w *blockWriter) appendTo(data []byte) []byte {
	start := len(data)
	data = binary.AppendUvarint(binary.AppendUvarint(data, uint64(w.count)), uint64(w.bytes))
	data = binary.LittleEndian.AppendUint32(data, w.sum)
	data = append(append(data, w.digests...), w.lengths...)
	data = binary.LittleEndian.AppendUint32(data, crc32.Checksum(data[start:], wire.CRC32C))
	*w = blockWriter{digests: w.digests[:0], lengths: w.lengths[:0]}
	return data
}

// errDamaged says that an index, or what it is made of, is not what was written.
var errDamaged = errors.New("the index is damaged")

// head is what a block says before the lengths of its results.
type head struct {
	count   int
	bytes   int64
	sum     uint32
	digests []byte
	lengths []byte
}

// headOf takes a block apart. Whether it is the one that was written shows by its checksum, if verify is set.
func headOf(data []byte, verify bool) (h head, err error) {
	if len(data) < 4 || verify && crc32.Checksum(data[:len(data)-4], wire.CRC32C) != binary.LittleEndian.Uint32(data[len(data)-4:]) {
		return h, errDamaged
	}
	data = data[:len(data)-4]
	count, a := binary.Uvarint(data)
	if a <= 0 || count > maxBlockItems {
		return h, errDamaged
	}
	size, b := binary.Uvarint(data[a:])
	digests := a + b + 4
	lengths := digests + int(count)*digestSize
	if b <= 0 || lengths > len(data) {
		return h, errDamaged
	}
	return head{
		count: int(count), bytes: int64(size), sum: binary.LittleEndian.Uint32(data[a+b:]),
		digests: data[digests:lengths:lengths], lengths: data[lengths:],
	}, nil
}

// none returns how many items have no result: the byte 0 is their length, and in no other one.
func (h *head) none() int { return bytes.Count(h.lengths, []byte{0}) }

func (h *head) id(i int) uint64 { return binary.LittleEndian.Uint64(h.digests[i*digestSize:]) }

// decode decodes a block into b, whose memory it uses again. The digests are those in data.
func (b *block) decode(data []byte) error {
	b.ends, b.none = b.ends[:0], b.none[:0]
	h, err := headOf(data, true)
	if err != nil {
		return err
	}
	b.digests, b.bytes, b.sum, b.data = h.digests, h.bytes, h.sum, data
	end := int64(0)
	for range h.count {
		n, size := binary.Uvarint(h.lengths)
		if size <= 0 {
			break
		}
		h.lengths = h.lengths[size:]
		if n > 0 {
			end += int64(n - 1)
		}
		b.ends, b.none = append(b.ends, end), append(b.none, n == 0)
	}
	if len(b.ends) != h.count || len(h.lengths) > 0 || end != h.bytes {
		b.ends, b.none = b.ends[:0], b.none[:0]
		return errDamaged
	}
	return nil
}
