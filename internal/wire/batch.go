package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/stint-run/stint/internal/base/text"
)

// Batch is a range of consecutive items of one source, by reference. It carries a check over its own fields, from
// whoever has cut it to the manifest: whoever makes one calls [Batch.Sealed], whoever executes or records one calls
// [Batch.Verify] first. So a field that is lost or changed on the way is an error before anything is read, and never a
// result of other items.
type Batch struct {
	// Source is the index of the input in the job's source table.
	Source int `json:"s,omitempty"`
	// Offset and Length are the range in bytes (of the uncompressed input).
	Offset int64 `json:"o,omitempty"`
	Length int64 `json:"l"`
	// First is the ordinal of the first item, Count the number of items.
	First int64 `json:"f,omitempty"`
	Count int64 `json:"n"`
	// From is what earlier stages of a pipeline have made of these items, and perhaps of others before and after them.
	// Nil: the items are as the job got them.
	From *Parcel `json:"a,omitempty"`
	// Digest is the CRC-32C of the bytes of the input when they were planned; 0: it is not known. Of several small
	// inputs it goes over what their items are read from, one after the other.
	Digest uint32 `json:"y,omitempty"`
	// Check is that of the fields above; 0: there is none, and Verify fails.
	Check uint32 `json:"h,omitempty"`
}

// ErrDamaged is the error of a batch whose fields are not those with which it was sealed.
var ErrDamaged = errors.New("its fields do not match its check")

// Sealed returns the batch with the check of its fields.
func (b Batch) Sealed() Batch {
	b.Check = b.sum()
	return b
}

// Verify returns an error, which is [ErrDamaged], unless the batch is as it was when it was sealed.
func (b Batch) Verify() error {
	if b.Check != b.sum() {
		return fmt.Errorf("%s (source %d, bytes %d to %d): %w", b, b.Source, b.Offset, b.Offset+b.Length, ErrDamaged)
	}
	return nil
}

// Valid returns an error if the numbers of the batch cannot be those of one: whoever executes one sizes and loops by
// them.
func (b Batch) Valid() error {
	if b.Source < 0 || b.Offset < 0 || b.Length < 0 || b.First < 0 || b.Count < 0 || b.First > Endless || b.Count > Endless-b.First {
		return fmt.Errorf("a batch of %d items from %d on, in %d bytes from %d on of source %d: no number may be below 0, and items end before %d",
			b.Count, b.First, b.Length, b.Offset, b.Source, int64(Endless))
	}
	return nil
}

// sum returns the CRC-32C of all fields but Check; never 0.
func (b Batch) sum() uint32 {
	sum := digest(0, int64(b.Source), b.Offset, b.Length, b.First, b.Count)
	if b.From != nil {
		sum = b.From.digest(sum)
	}
	if b.Digest != 0 {
		sum = digest(sum, int64(b.Digest))
	}
	return max(1, sum)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// digest adds numbers to a checksum.
func digest(sum uint32, numbers ...int64) uint32 {
	var data [8]byte
	for _, n := range numbers {
		binary.LittleEndian.PutUint64(data[:], uint64(n))
		sum = crc32.Update(sum, castagnoli, data[:])
	}
	return sum
}

// digestText adds a text to a checksum.
func digestText(sum uint32, s string) uint32 {
	return crc32.Update(digest(sum, int64(len(s))), castagnoli, []byte(s))
}

// End returns the ordinal after the batch's last item.
func (b Batch) End() int64 { return b.First + b.Count }

// Upto returns the first count items of the batch, which take length bytes. Their digest is not known.
func (b Batch) Upto(count, length int64) Batch {
	part := b
	part.Count, part.Length, part.Digest = count, length, 0
	return part.resealed(b)
}

// After returns what is left of the batch after its first done items, which take length bytes. Its digest is not known.
func (b Batch) After(done, length int64) Batch {
	rest := b
	rest.First += done
	rest.Count -= done
	rest.Offset += length
	rest.Length -= length
	rest.Digest = 0
	return rest.resealed(b)
}

// With returns the batch with another parcel; nil: with none.
func (b Batch) With(parcel *Parcel) Batch {
	changed := b
	changed.From = parcel
	return changed.resealed(b)
}

// WithDigest returns the batch with another digest; 0: with none.
func (b Batch) WithDigest(digest uint32) Batch {
	changed := b
	changed.Digest = digest
	return changed.resealed(b)
}

// resealed seals what was made of a batch. If that was damaged, what was made of it is damaged, too.
func (b Batch) resealed(of Batch) Batch {
	b.Check = 0
	if of.Check == of.sum() {
		b.Check = b.sum()
	}
	return b
}

// String names the batch to a person by its items.
func (b Batch) String() string {
	if b.End() == Endless {
		return fmt.Sprintf("items from %s on", text.Thousands(b.First))
	}
	if b.Count == 1 {
		return fmt.Sprintf("item %s", text.Thousands(b.First))
	}
	return fmt.Sprintf("items %s–%s", text.Thousands(b.First), text.Thousands(b.End()-1))
}

// EncodePage packs consecutive batches for a workflow's history. A batch that begins at the end of the one before it,
// in the same source and with the next ordinal, takes its length and count only, some six to ten bytes; one with a
// digest has six bytes for that, one with a parcel has that as well, in JSON, some 150 bytes. In place of the checks of
// the batches there is one of them all, four bytes at the beginning.
func EncodePage(batches []Batch) []byte {
	if len(batches) == 0 {
		return nil
	}
	page := binary.LittleEndian.AppendUint32(nil, checkOf(batches))
	var next Batch
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

// checkOf returns the check of all batches of a page, of their own checks.
func checkOf(batches []Batch) uint32 {
	sum := crc32.NewIEEE()
	for i := range batches {
		_ = binary.Write(sum, binary.LittleEndian, batches[i].Check) // a hash takes everything
	}
	return sum.Sum32()
}

var errCutShort = errors.New("cut short")

// DecodePage returns the inverse of [EncodePage]. It returns an error if a batch is not what it was when it was sealed.
func DecodePage(page []byte) ([]Batch, error) {
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
		return nil, fmt.Errorf("page of %d batches: %w", len(batches), ErrDamaged)
	}
	return batches, nil
}

func decodeBatches(page []byte) ([]Batch, error) {
	var batches []Batch
	var next Batch
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
