package records

import "github.com/stint-run/stint/internal/wire"

// Origin is an item as a job got it, and where from: for its error record.
type Origin struct {
	Source string // its URL, or another name that people know it by
	Offset int64  // in the source, in bytes, of the item's first byte; 0 if it has none
	Shape  *wire.Shape
	Item   *Item
}
