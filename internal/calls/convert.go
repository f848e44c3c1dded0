package calls

import (
	"unicode/utf8"

	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Conversion gives items the form that a handler wants.
type Conversion struct {
	Form  Form
	Shape *wire.Shape // of the items
	data  []byte      // of items that had to be converted, since reset
}

func (c *Conversion) Reset() { c.data = c.data[:0] }

// AsLines reports whether the items' own lines are what the handler wants.
func (c *Conversion) AsLines() bool { return c.Form == Lines && records.Lines(c.Shape) }

// Convert returns an item in the form that the handler wants. It is valid until reset.
func (c *Conversion) Convert(item *records.Item) ([]byte, error) {
	if item.Err != nil {
		return nil, item.Err
	}
	shape, form := c.Shape, c.Form
	switch {
	case form == CheckedJSON && records.JSONLines(shape):
		return item.Raw, records.CheckLine(shape, item)
	case form == JSONValues && records.JSONLines(shape) && utf8.Valid(item.Raw):
		return item.Raw, records.CheckNesting(item.Raw) // the handler's own decoder checks the rest
	case form == Lines && records.Lines(shape):
		return item.Raw, records.CheckLine(shape, item)
	}
	start := len(c.data)
	var err error
	if form == Lines {
		c.data, err = records.AppendLine(shape, c.data, item)
	} else {
		c.data, err = records.AppendJSON(shape, c.data, item)
	}
	if err != nil {
		c.data = c.data[:start]
		return nil, err
	}
	return c.data[start:len(c.data):len(c.data)], nil
}

// InvalidFault is the fault of an item that is not in its format.
func InvalidFault(err error) *Fault {
	return &Fault{Kind: job.KindInvalid, Err: job.Error{Type: "Invalid", Message: err.Error()}}
}
