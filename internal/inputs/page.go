package inputs

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stint-run/stint/internal/protocol"
)

// EncodePage packs consecutive batches for a workflow's history. A batch that begins at the end of
// the one before it, in the same source and with the next ordinal, takes its length and count only,
// some six to ten bytes; one with a parcel has that as well, in JSON, some 150 bytes.
func EncodePage(batches []protocol.Batch) []byte {
	var page []byte
	var next protocol.Batch
	for _, b := range batches {
		head := uint64(b.Length) << 2
		if b.From != nil {
			head |= hasParcel
		}
		if b.Source == next.Source && b.Offset == next.Offset && b.First == next.First {
			page = binary.AppendUvarint(page, head)
		} else {
			page = binary.AppendUvarint(page, head|hasStart)
			page = binary.AppendUvarint(page, uint64(b.Source))
			page = binary.AppendUvarint(page, uint64(b.Offset))
			page = binary.AppendUvarint(page, uint64(b.First))
		}
		page = binary.AppendUvarint(page, uint64(b.Count))
		if b.From != nil {
			parcel, _ := json.Marshal(b.From) // of texts and numbers
			page = append(binary.AppendUvarint(page, uint64(len(parcel))), parcel...)
		}
		next = b.After(b.Count, b.Length)
	}
	return page
}

// What the lowest bits of a batch's length say.
const (
	hasStart  = 1 << iota // it does not begin at the end of the one before
	hasParcel             // it has been through a stage
)

var errCutShort = errors.New("cut short")

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
		b.From = nil
		head := number()
		b.Length = int64(uint64(head) >> 2)
		if head&hasStart != 0 {
			b.Source, b.Offset, b.First = int(number()), number(), number()
		}
		b.Count = number()
		if head&hasParcel != 0 {
			size := number()
			if failed || size > int64(len(page)) {
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
		batches = append(batches, b)
		next = b.After(b.Count, b.Length)
	}
	return batches, nil
}
