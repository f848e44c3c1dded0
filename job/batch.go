package job

import "fmt"

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
	if b.Count == 1 {
		return fmt.Sprintf("item %s", Thousands(b.First))
	}
	return fmt.Sprintf("items %s–%s", Thousands(b.First), Thousands(b.End()-1))
}

// Thousands writes n with commas: 12,345.
func Thousands(n int64) string {
	s := fmt.Sprint(n)
	start := 0
	if n < 0 {
		start = 1
	}
	for i := len(s) - 3; i > start; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
