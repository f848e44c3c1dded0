package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

// problem is an error as clients see it. Type is the name of the error in package job and in the client for Python.
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
	if cause == nil || !errors.Is(err, context.Canceled) {
		return err
	}
	if uncertain := (*jobs.UncertainError)(nil); errors.As(err, &uncertain) {
		return &jobs.UncertainError{Err: cause}
	}
	return cause
}

// explain returns an error's status and what clients see of it.
func explain(err error) (int, problem) {
	p := problem{Message: err.Error()}
	if status, ok := p.ofRequest(err); ok {
		return status, p
	}
	if status, ok := p.ofItem(err); ok {
		return status, p
	}
	return p.ofFeed(err), p
}

func (p *problem) ofRequest(err error) (int, bool) {
	var request *requestError
	var uncertain *jobs.UncertainError
	switch {
	case errors.As(err, &request):
		p.Type, p.Line = request.kind, request.line
		return request.status, true
	case errors.As(err, &uncertain):
		status, reason := explain(uncertain.Err)
		p.Type, p.Reason = "UncertainError", &reason
		if status < http.StatusInternalServerError {
			status = http.StatusBadGateway // sending it again may do it twice
		}
		return status, true
	case errors.Is(err, errDraining), errors.Is(err, jobs.ErrReleased):
		p.Type, p.Message = typeUnavailable, errDraining.Error()
		return http.StatusServiceUnavailable, true
	}
	return 0, false
}

// ofItem is for errors that concern one item.
func (p *problem) ofItem(err error) (int, bool) {
	var failed *jobs.ItemError
	var dropped *jobs.DroppedError
	var discarded *jobs.DiscardedError
	var stored *jobs.StoredError
	var decode *jobs.DecodeError
	var invalid *jobs.InvalidItemError
	var large *jobs.TooLargeError
	switch {
	case errors.As(err, &failed):
		p.Type, p.Item, p.Kind, p.Attempts = "ItemError", &failed.Item, failed.Kind, failed.Attempts
		p.Cause = &job.Error{Type: failed.Err.Type, Message: failed.Err.Message}
		return http.StatusUnprocessableEntity, true
	case errors.As(err, &dropped):
		p.Type, p.Item, p.Kind = "DroppedError", &dropped.Item, "dropped"
		return http.StatusUnprocessableEntity, true
	case errors.As(err, &discarded):
		p.Type, p.Item, p.Kind = "DiscardedError", &discarded.Item, "discarded"
		return http.StatusGone, true
	case errors.As(err, &stored):
		p.Type, p.Kind = "StoredError", "stored"
		if stored.Item >= 0 {
			p.Item = &stored.Item
		}
		if stored.Err == nil {
			p.Message = "the outcome is in the feed's store, and the gateway was started without --allow"
		}
		return http.StatusGone, true
	case errors.As(err, &decode):
		p.Type, p.Item, p.Kind = "DecodeError", &decode.Item, "decode"
		return http.StatusBadGateway, true
	case errors.As(err, &invalid):
		p.Type, p.Kind = typeInvalidItem, "refused"
		return http.StatusBadRequest, true
	case errors.As(err, &large):
		p.Type, p.Kind, p.MaxItems, p.MaxBytes = typeTooLarge, "refused", large.MaxItems, large.MaxBytes
		return http.StatusRequestEntityTooLarge, true
	}
	return 0, false
}

// ofFeed is for the others.
func (p *problem) ofFeed(err error) int {
	var full *jobs.FullError
	var closed *jobs.ClosedError
	var stopped *jobs.StoppedError
	var failed *jobs.FailedError
	var unknown *jobs.NotFoundError
	var other *jobs.NotFeedError
	var unserved *jobs.UnservedError
	var late *jobs.TimeoutError
	switch {
	case errors.As(err, &full):
		p.Type, p.Waited = "FullError", full.Waited.Seconds()
		p.Capacity, p.CapacityBytes, p.Backlog, p.BacklogBytes = full.Capacity, full.CapacityBytes, full.Backlog, full.BacklogBytes
		return http.StatusTooManyRequests
	case errors.As(err, &closed):
		p.Type = "ClosedError"
		return http.StatusConflict
	case errors.As(err, &stopped):
		p.Type = "StoppedError"
		return http.StatusConflict
	case errors.As(err, &failed):
		p.Type = "FailedError"
		return http.StatusConflict
	case errors.As(err, &unknown):
		p.Type = "NotFoundError"
		return http.StatusNotFound
	case errors.As(err, &other):
		p.Type = "NotFeedError"
		return http.StatusNotFound
	case errors.As(err, &unserved):
		p.Type = "UnservedError"
		return http.StatusServiceUnavailable
	case errors.As(err, &late):
		p.Type, p.Total, p.Accepted = typeTimeout, late.Total.Seconds(), late.Accepted
		if late.Queued >= 0 {
			queued := late.Queued.Seconds()
			p.Queued = &queued
		}
		return http.StatusGatewayTimeout
	case errors.Is(err, context.DeadlineExceeded):
		p.Type = typeTimeout
		return http.StatusGatewayTimeout
	case errors.Is(err, context.Canceled):
		p.Type = typeUnavailable
		return statusGone
	}
	p.Type = typeUnavailable // the Temporal server's
	return http.StatusBadGateway
}

// retryAfter is when a request that was refused with a status may be sent again; 0: it says nothing.
func retryAfter(status int) time.Duration {
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return time.Second
	}
	return 0
}
