package feedclient

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Leg is one run of one of a feed's legs. A job that is started anew, or resumed, has other runs under the same numbers.
type Leg struct {
	Number int
	Run    string
}

// Legs is what the client needs of a feed. It is safe for concurrent use. Every method ends when its context does; an
// error that is none of the types of this file leaves unknown what has become of the request.
type Legs interface {
	// Open returns the leg that takes items. Errors: [ErrNotOpen], *[EndedError].
	Open(ctx context.Context) (Leg, error)
	// Find returns the present run of the leg of that number. Errors: [ErrGone].
	Find(ctx context.Context, number int) (Leg, error)
	// Exchange gives items to a leg and takes results. Repeated with the same id, it returns the outcome of the first
	// time, unless that was an error. Errors: *[RefusedError], [ErrGone], [ErrBarred], [ErrCut], *[FatalError].
	Exchange(ctx context.Context, leg Leg, id string, e wire.Exchange) (wire.Exchanged, error)
	// Reset begins the next session. It can be repeated as Exchange can, and has the same errors.
	Reset(ctx context.Context, leg Leg, id string) (wire.ResetDone, error)
	// Close closes the feed, and can be repeated. Errors: *[EndedError], *[FatalError].
	Close(ctx context.Context, id string) error
	// State returns what the leg knows of the feed. Errors: [ErrGone], *[FatalError].
	State(ctx context.Context, leg Leg) (job.FeedState, error)
	// Items returns what the leg knows of some of its items.
	Items(ctx context.Context, leg Leg, items []int64) ([]wire.ItemState, error)
	// Served reports whether any worker serves the feed's pool.
	Served(ctx context.Context) (bool, error)
	// Ended returns the error for callers of a feed that takes no items, for the reason that a leg has given:
	// [wire.RefusedClosed] or [wire.RefusedStopping]; empty: not known. It is never nil.
	Ended(ctx context.Context, reason string) error
}

// Outcomes of a request that is not carried out, or not to its end.
var (
	// ErrNotOpen reports that no leg of the feed takes items yet.
	ErrNotOpen = errors.New("no leg of the feed is open yet")
	// ErrGone reports that the leg has ended before the request reached it.
	ErrGone = errors.New("the leg has ended")
	// ErrBarred reports that the leg runs, and the server gives it no more requests.
	ErrBarred = errors.New("the leg can take no more requests")
	// ErrCut reports that the leg has carried out the request, and ended before it answered.
	ErrCut = errors.New("the leg has ended before it answered")
	// ErrReleased reports that the client has been released.
	ErrReleased = errors.New("the feed's client has been released")
)

// RefusedError reports that a leg has refused a request. It leaves no trace.
type RefusedError struct {
	Type string // one of the protocol's refusals
	wire.Refusal
	Message string
	Items   int   // in the list that was refused; 0: not known
	Bytes   int64 // of the list
}

func (e *RefusedError) Error() string {
	if e.Message != "" {
		return e.Message
	}
	return fmt.Sprintf("the feed has refused the items: %s", e.Type)
}

// EndedError reports that the feed takes no items: it is unknown, closed, stopped or failed. Err is the error for callers.
type EndedError struct {
	Err    error
	Closed bool // it has been closed, and has done all
}

func (e *EndedError) Error() string { return e.Err.Error() }

// Unwrap returns the error for callers.
func (e *EndedError) Unwrap() error { return e.Err }

// FatalError reports a request that cannot succeed however often it is repeated. It has not been carried out.
type FatalError struct{ Err error }

func (e *FatalError) Error() string { return e.Err.Error() }

// Unwrap returns the server's error.
func (e *FatalError) Unwrap() error { return e.Err }

// UncertainError reports that items have been sent and it is not known whether they have been accepted.
type UncertainError struct{ Err error }

func (e *UncertainError) Error() string {
	return fmt.Sprintf("%v; it is not known whether the items have been accepted", e.Err)
}

// Unwrap returns the reason why that is not known.
func (e *UncertainError) Unwrap() error { return e.Err }

// ErrUnserved reports that no worker serves the feed's pool.
var ErrUnserved = errors.New("no worker serves the feed's pool")

// known reports whether an error says that the request has an outcome, so that it need not be repeated.
func known(err error) bool {
	return err == nil || errors.As(err, new(*RefusedError)) || errors.As(err, new(*FatalError)) || errors.As(err, new(*EndedError)) ||
		errors.Is(err, ErrGone) || errors.Is(err, ErrBarred) || errors.Is(err, ErrCut) || errors.Is(err, ErrNotOpen)
}
