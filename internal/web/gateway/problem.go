package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

// problem is an error as clients see it. Type is a code of package jobs or a type below, and the name of the error in
// the client for Python.
type problem struct {
	Type    string `json:"type"`
	Message string `json:"message"`

	Line int64 `json:"line,omitempty"` // of the request, from 1

	// An item's.
	Item     *int64     `json:"item,omitempty"` // ordinal
	Kind     string     `json:"kind,omitempty"`
	Cause    *job.Error `json:"cause,omitempty"`
	Attempts int        `json:"attempts,omitempty"`

	// Of a full feed, or of items that are too large.
	Capacity      int   `json:"capacity,omitempty"` // items
	CapacityBytes int64 `json:"capacity_bytes,omitempty"`
	Backlog       int   `json:"backlog,omitempty"`
	BacklogBytes  int64 `json:"backlog_bytes,omitempty"`
	MaxItems      int   `json:"max_items,omitempty"`
	MaxBytes      int64 `json:"max_bytes,omitempty"`

	// Of waiting in vain.
	Waited   float64  `json:"waited_seconds,omitempty"`
	Queued   *float64 `json:"queued_seconds,omitempty"` // absent: not known
	Total    float64  `json:"total_seconds,omitempty"`
	Accepted bool     `json:"accepted,omitempty"` // for certain

	Reason *problem `json:"reason,omitempty"` // why it is uncertain
}

// Types of errors that only the gateway has.
const (
	typeInvalidRequest = "InvalidRequestError"
	typeUnavailable    = "UnavailableError"
	typeTooLarge       = "TooLargeError"
	typeInvalidItem    = "InvalidItemError"
	typeTimeout        = "TimeoutError"
)

// requestError is an error of the request itself.
type requestError struct {
	status  int
	kind    string
	message string
	line    int64
}

func (e *requestError) Error() string { return e.message }

func badRequest(format string, args ...any) error {
	return &requestError{status: http.StatusBadRequest, kind: typeInvalidRequest, message: fmt.Sprintf(format, args...)}
}

// errDraining reports that the gateway ends, and has waited long enough.
var errDraining = errors.New("the gateway is ending")

// statusGone is the status, in metrics, of a request whose client has gone.
const statusGone = 499

// ended returns the error of a request whose context may have ended: why it has, if that is what the error is about.
func ended(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case cause == nil || !errors.Is(err, context.Canceled):
		return err
	case jobs.IsCode(err, jobs.CodeUncertain):
		return &jobs.FeedError{Code: jobs.CodeUncertain, Err: cause}
	}
	return cause
}

// explain returns an error's status and what clients see of it.
func explain(err error) (int, problem) {
	p := problem{Message: err.Error()}
	var request *requestError
	var feed *jobs.FeedError
	switch {
	case errors.As(err, &request):
		p.Type, p.Line = request.kind, request.line
		return request.status, p
	case errors.As(err, &feed):
		return p.ofFeed(feed), p
	case errors.Is(err, errDraining):
		p.Type, p.Message = typeUnavailable, errDraining.Error()
		return http.StatusServiceUnavailable, p
	case errors.As(err, new(*jobs.FailedError)):
		p.Type = "FailedError"
		return http.StatusConflict, p
	case errors.As(err, new(*jobs.NotFoundError)):
		p.Type = "NotFoundError"
		return http.StatusNotFound, p
	case errors.Is(err, context.DeadlineExceeded):
		p.Type = typeTimeout
		return http.StatusGatewayTimeout, p
	case errors.Is(err, context.Canceled):
		p.Type = typeUnavailable
		return statusGone, p
	}
	p.Type = typeUnavailable // the Temporal server's
	return http.StatusBadGateway, p
}

// ofFeed adds what a feed's error says, and returns its status.
func (p *problem) ofFeed(e *jobs.FeedError) (status int) {
	p.Type, status = e.Code.Problem()
	p.Item, p.Kind = e.Item, e.Kind()
	switch e.Code {
	case jobs.CodeUncertain:
		why, reason := explain(e.Err)
		p.Reason = &reason
		if why >= http.StatusInternalServerError {
			status = why // otherwise sending it again may do it twice
		}
	case jobs.CodeReleased:
		p.Message = errDraining.Error()
	case jobs.CodeFull:
		p.Capacity, p.CapacityBytes, p.Backlog, p.BacklogBytes = e.MaxItems, e.MaxBytes, e.Items, e.Bytes
		p.Waited = e.Waited.Seconds()
	case jobs.CodeTooLarge:
		p.MaxItems, p.MaxBytes = e.MaxItems, e.MaxBytes
	case jobs.CodeTimeout:
		p.Total, p.Accepted = e.Waited.Seconds(), e.Accepted
		if e.Queued != nil {
			queued := e.Queued.Seconds()
			p.Queued = &queued
		}
	case jobs.CodeItem:
		p.Attempts, p.Cause = e.Failure.Attempts, &job.Error{Type: e.Failure.Error.Type, Message: e.Failure.Error.Message}
	case jobs.CodeStored:
		if e.Err == nil {
			p.Message = "the outcome is in the feed's store, and the gateway was started without --allow"
		}
	}
	return status
}
