package stages

import (
	"encoding/json"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Settled is the error of an item that an earlier step has settled: it has failed, or it was dropped.
type Settled struct {
	// Line is that of the error; nil: the item was dropped.
	Line *wire.ErrorLine
	// Decided: that is counted already.
	Decided bool
}

// Error says what has become of the item.
func (s *Settled) Error() string {
	if s.Line == nil {
		return "an earlier stage has dropped the item"
	}
	return "the item has failed in an earlier stage: " + s.Line.Failure.Error.Error()
}

// Undone is the error of an item that an ensemble or a switch could make nothing of.
type Undone struct {
	Stage   string
	Err     job.Error
	Partial json.RawMessage // see job.Failure
}

func (u *Undone) Error() string { return u.Err.Error() }

// outcome is what a view has of one item: a line without its end, or what has settled it. The line is valid until the next item.
type outcome struct {
	line    []byte
	settled *Settled
	undone  *Undone
}

func (o *outcome) hasLine() bool { return o.settled == nil && o.undone == nil }

// fresh is the outcome as one that is not counted yet.
func (o outcome) fresh() outcome {
	if o.settled != nil {
		o.settled = &Settled{Line: o.settled.Line}
	}
	return o
}

// err is what is wrong with an outcome that is not a line.
func (o *outcome) err() error {
	if o.undone != nil {
		return o.undone
	}
	return o.settled
}

// failure is the error of an outcome; nil: the item was dropped.
func (o *outcome) failure() *job.Error {
	switch {
	case o.undone != nil:
		return &o.undone.Err
	case o.settled.Line == nil:
		return nil
	}
	return &o.settled.Line.Failure.Error
}
