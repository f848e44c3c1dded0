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
	// Delimiter separates the fields of CSV: an ASCII character other than a quote and the line ends. Empty: a comma.
	Delimiter string `json:"delimiter,omitempty"`
	// Quote says whether fields of CSV may be quoted: Quoted, or Unquoted, or empty: they may.
	Quote string `json:"quote,omitempty"`
	// Columns are the names in the header of a CSV source, in its order, unique and not empty.
	Columns []string `json:"columns,omitempty"`
	// Array means that a JSON source is what lies behind the opening bracket of one array: its elements are the items.
	Array bool `json:"array,omitempty"`
	// Guess means that a source's Format is only a guess by its name, until [Look] has looked at it.
	Guess Guess `json:"guess,omitempty"`
	// Records means that the lines of a JSONL source are records that were read from CSV: objects of strings.
	Records bool `json:"records,omitempty"`
	// MaxItem is the size in bytes, without the line end's '\n', over which an item is invalid.
	// Values below 1 count as DefaultMaxItem, values above 1 GiB as 1 GiB.
	MaxItem int `json:"max_item"`
}

// What Quote of a Shape may be.
const (
	Quoted   = `"`    // fields may be quoted, as RFC 4180 has it
	Unquoted = "none" // a quote is a byte like any other, and a record is one line
)

// quoting reports whether fields of CSV may be quoted.
func (s *Shape) quoting() bool {
	return s.Format == CSV && s.Quote != Unquoted
}

// maxItem is MaxItem within its range.
func (s *Shape) maxItem() int {
	if s.MaxItem < 1 {
		return DefaultMaxItem
	}
	return min(s.MaxItem, largestMaxItem)
}

// delimiter is what separates the fields of CSV.
func (s *Shape) delimiter() byte {
	if s.Delimiter == "" {
		return ','
	}
	return s.Delimiter[0]
}

// Lines reports whether each item is one line, which is what a filter gets.
func (s *Shape) Lines() bool { return s.Format == JSONL || s.Format == Text }

// Alike reports whether two shapes of which the sources have not been looked at are the same.
func (s *Shape) Alike(o *Shape) bool {
	return s.Format == o.Format && s.Delimiter == o.Delimiter && s.Quote == o.Quote && s.Guess == o.Guess
}

// HasRecords reports whether the items are records of CSV: in JSON, objects of strings.
func (s *Shape) HasRecords() bool { return s.Format == CSV || s.Records }
