package inputs

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/stint-run/stint/internal/wire"
)

// EncodePage packs consecutive batches for a workflow's history. A batch that begins at the end of
// the one before it, in the same source and with the next ordinal, takes its length and count only,
// some six to ten bytes; one with a digest has six bytes for that, one with a parcel has that as well, in JSON, some
// 150 bytes. In place of the checks of the batches there is one
// of them all, four bytes at the beginning.
func EncodePage(batches []wire.Batch) []byte {
	if len(batches) == 0 {
		return nil
	}
	page := binary.LittleEndian.AppendUint32(nil, checkOf(batches))
	var next wire.Batch
	for _, b := range batches {
		if b.Source == next.Source && b.Offset == next.Offset && b.First == next.First {
			page = binary.AppendUvarint(page, uint64(b.Length)<<1)
		} else {
			page = binary.AppendUvarint(page, uint64(b.Length)<<1|1)
			page = binary.AppendUvarint(page, uint64(b.Source))
			page = binary.AppendUvarint(page, uint64(b.Offset))
			page = binary.AppendUvarint(page, uint64(b.First))
		}
		if b.From != nil {
			parcel, _ := json.Marshal(b.From)    // of texts and numbers
			page = binary.AppendUvarint(page, 0) // no batch has that count
			page = append(binary.AppendUvarint(page, uint64(len(parcel))), parcel...)
		}
		if b.Digest != 0 {
			page = binary.LittleEndian.AppendUint32(append(page, 0, 0), b.Digest) // no batch has that count, and no parcel that size
		}
		page = binary.AppendUvarint(page, uint64(b.Count))
		next = b.After(b.Count, b.Length)
	}
	return page
}

// checkOf is the check of all batches of a page, of their own checks.
func checkOf(batches []wire.Batch) uint32 {
	sum := crc32.NewIEEE()
	for i := range batches {
		_ = binary.Write(sum, binary.LittleEndian, batches[i].Check) // a hash takes everything
	}
	return sum.Sum32()
}

var errCutShort = errors.New("cut short")

// DecodePage is the inverse of [EncodePage]. It returns an error if a batch is not what it was when it was sealed.
func DecodePage(page []byte) ([]wire.Batch, error) {
	if len(page) == 0 {
		return nil, nil
	}
	if len(page) < 4 {
		return nil, fmt.Errorf("page of batches: %w", errCutShort)
	}
	batches, err := decodeBatches(page[4:])
	if err != nil {
		return nil, err
	}
	if checkOf(batches) != binary.LittleEndian.Uint32(page) {
		return nil, fmt.Errorf("page of %d batches: %w", len(batches), wire.ErrDamaged)
	}
	return batches, nil
}

func decodeBatches(page []byte) ([]wire.Batch, error) {
	var batches []wire.Batch
	var next wire.Batch
	for len(page) > 0 {
		var failed bool
		number := func() int64 {
			v, n := binary.Uvarint(page)
			if n <= 0 {
				failed = true
				return 0
			}
			page = page[n:]
			return int64(v)
		}
		b := next
		b.From = nil
		head := number()
		b.Length = int64(uint64(head) >> 1)
		if head&1 == 1 {
			b.Source, b.Offset, b.First = int(number()), number(), number()
		}
		for b.Count = number(); b.Count == 0 && !failed; b.Count = number() {
			size := number()
			if size == 0 && !failed && len(page) >= 4 {
				b.Digest, page = binary.LittleEndian.Uint32(page), page[4:]
				continue
			}
			if failed || size <= 0 || size > int64(len(page)) {
				return nil, fmt.Errorf("page of batches: %w", errCutShort)
			}
			if err := json.Unmarshal(page[:size], &b.From); err != nil {
				return nil, fmt.Errorf("page of batches: %w", err)
			}
			page = page[size:]
		}
		if failed {
			return nil, fmt.Errorf("page of batches: %w", errCutShort)
		}
		batches = append(batches, b.Sealed())
		next = b.After(b.Count, b.Length)
	}
	return batches, nil
}
