package records

// Limits on the size of one item, in bytes.
const (
	DefaultMaxItem = 16 << 20 // if none is given
	largestMaxItem = 1 << 30  // a greater limit counts as this one
)

// Shape says how to find items in the bytes of one source. It lies as JSON in the job's source
// table, so that everyone who reads a part of the source finds the same items. It is not changed
// by its methods, and may be used by several goroutines at once.
type Shape struct {
	Format Format `json:"format"`
	// Columns are the names in the header of a CSV source, in its order, unique and not empty.
	Columns []string `json:"columns,omitempty"`
	// MaxItem is the size in bytes, without the line end's '\n', over which an item is invalid.
	// Values below 1 count as DefaultMaxItem, values above 1 GiB as 1 GiB.
	MaxItem int `json:"max_item"`
}

// maxItem is MaxItem within its range.
func (s *Shape) maxItem() int {
	if s.MaxItem < 1 {
		return DefaultMaxItem
	}
	return min(s.MaxItem, largestMaxItem)
}
