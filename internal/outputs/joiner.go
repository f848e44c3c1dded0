package outputs

import (
	"context"
	"math"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/internal/wire"
)

// Joiner joins the parts of a job's output while the job still runs, so that Finish has little left to
// do. It is an optimisation: nothing depends on it, and it may give up at any moment. Its methods may
// be called by many goroutines at once.
//
// [NoJoiner] leaves all joining to Finish; [NewJoiner] is for a process that does all of a job's work.
type Joiner interface {
	// Begin begins to join a run's parts, from its first item on, and gives up any other run's. It
	// does nothing if the output cannot be joined early: Finish meets the reason again, and reports it.
	Begin(ref wire.Ref, output string)
	// Parts takes the parts of a run while they are made.
	Parts(run string) PartJoiner
	// Take ends the join of a run and returns what it has joined. It returns the zero value if that
	// is not what the accepted entries begin with. each calls its function with them in order, until
	// that returns false.
	Take(ctx context.Context, run string, each func(context.Context, func(ledger.OwnedEntry) bool) error) (Begun, error)
	// Close gives up the join. Nothing is left behind.
	Close()
}

// PartJoiner takes the parts of a run while they are made.
type PartJoiner interface {
	// Joins reports whether parts are joined, and so not read again soon.
	Joins() bool
	// Hold keeps the results in buf, which becomes the join's until Release, and returns an empty
	// buffer in its place. If there is no room it returns false, and buf stays the caller's.
	Hold(buf []byte) (next []byte, held bool)
	// Release takes held buffers back.
	Release(held [][]byte)
	// Offer hands over a durable part. held is all of its results, or nothing; it becomes the join's.
	Offer(entry wire.Entry, held [][]byte)
}

// Begun is the part of an output file that is joined already; the zero value is nothing.
type Begun struct {
	Joining *store.Joining
	Parts   int    // the accepted parts that it begins with; [AllParts]: all
	End     func() // frees what the join holds, once the file is published or given up
}

// AllParts is for a file that needs no more parts.
const AllParts = math.MaxInt

// NoJoiner leaves all joining to Finish.
type NoJoiner struct{}

func (NoJoiner) Begin(wire.Ref, string)  {}
func (NoJoiner) Parts(string) PartJoiner { return NoJoiner{} }
func (NoJoiner) Close()                  {}
func (NoJoiner) Take(context.Context, string, func(context.Context, func(ledger.OwnedEntry) bool) error) (Begun, error) {
	return Begun{}, nil
}
func (NoJoiner) Joins() bool                    { return false }
func (NoJoiner) Hold(buf []byte) ([]byte, bool) { return buf, false }
func (NoJoiner) Release([][]byte)               {}
func (NoJoiner) Offer(wire.Entry, [][]byte)     {}
