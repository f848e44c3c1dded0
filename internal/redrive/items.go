package redrive

import (
	"encoding/json"
	"fmt"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// itemAgain returns the line by which an item of a source is run again; ok is false if it
// cannot be.
func itemAgain(l *wire.ErrorLine, shape *wire.Shape) (line []byte, ok bool, err error) {
	switch {
	case l.Never:
		return nil, false, nil
	case l.Raw != "":
		return []byte(l.Raw), true, nil
	case !records.TextLines(shape):
		return l.Failure.Input, true, nil
	}
	var text string
	if json.Unmarshal(l.Failure.Input, &text) == nil {
		return []byte(text), true, nil
	}
	var encoded struct {
		Base64 []byte `json:"base64"`
	}
	if err := json.Unmarshal(l.Failure.Input, &encoded); err != nil {
		return nil, false, ledger.Permanent(job.ErrorCorrupt, fmt.Errorf("reading the error record of item %d: %w", l.Failure.Item, err))
	}
	return encoded.Base64, true, nil
}
