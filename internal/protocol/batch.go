package protocol

import (
	"fmt"
	"github.com/stint-run/stint/internal/text"
)

// Batch is a range of consecutive items of one source, by reference.
type Batch struct {
	// Source is the index of the input in the job's source table.
	Source int `json:"s,omitempty"`
	// Offset and Length are the range in bytes (of the uncompressed input).
	Offset int64 `json:"o,omitempty"`
	Length int64 `json:"l"`
	// First is the ordinal of the first item, Count the number of items.
	First int64 `json:"f,omitempty"`
	Count int64 `json:"n"`
	// From is what earlier stages of a pipeline have made of these items, and perhaps of others before and after them. Nil: the
	// items are as the job got them.
	From *Parcel `json:"a,omitempty"`
}

// End is the ordinal after the batch's last item.
func (b Batch) End() int64 { return b.First + b.Count }

// After returns what is left of the batch after its first done items, which take length bytes.
func (b Batch) After(done, length int64) Batch {
	b.First += done
	b.Count -= done
	b.Offset += length
	b.Length -= length
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
