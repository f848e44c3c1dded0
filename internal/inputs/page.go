package inputs

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/stint-run/stint/internal/protocol"
)

// EncodePage packs consecutive batches for a workflow's history. A batch that begins at the end of
// the one before it, in the same source and with the next ordinal, takes its length and count only,
// some six to ten bytes.
func EncodePage(batches []protocol.Batch) []byte {
	var page []byte
	var next protocol.Batch
	for _, b := range batches {
		if b.Source == next.Source && b.Offset == next.Offset && b.First == next.First {
			page = binary.AppendUvarint(page, uint64(b.Length)<<1)
		} else {
			page = binary.AppendUvarint(page, uint64(b.Length)<<1|1)
			page = binary.AppendUvarint(page, uint64(b.Source))
			page = binary.AppendUvarint(page, uint64(b.Offset))
			page = binary.AppendUvarint(page, uint64(b.First))
		}
		page = binary.AppendUvarint(page, uint64(b.Count))
		next = b.After(b.Count, b.Length)
	}
	return page
}

// DecodePage is the inverse of [EncodePage].
func DecodePage(page []byte) ([]protocol.Batch, error) {
	var batches []protocol.Batch
	var next protocol.Batch
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
		head := number()
		b.Length = int64(uint64(head) >> 1)
		if head&1 == 1 {
			b.Source, b.Offset, b.First = int(number()), number(), number()
		}
		b.Count = number()
		if failed {
			return nil, fmt.Errorf("page of batches: %w", errors.New("cut short"))
		}
		batches = append(batches, b)
		next = b.After(b.Count, b.Length)
	}
	return batches, nil
}
