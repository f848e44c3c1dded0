package ledger

import (
	"context"
	"errors"

	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
)

// Judged is an error of which is known what follows.
type Judged struct {
	kind  string
	final bool
	cause error
}

// Permanent returns an error of that kind, one of job.Error…, which trying again does not mend.
func Permanent(kind string, err error) error { return &Judged{kind: kind, final: true, cause: err} }

func (e *Judged) Error() string { return e.cause.Error() }

// Unwrap returns what was judged.
func (e *Judged) Unwrap() error { return e.cause }

// Type is the error's kind, one of job.Error….
func (e *Judged) Type() string { return e.kind }

// NonRetryable reports whether trying again would bring the same.
func (e *Judged) NonRetryable() bool { return e.final }

// StoreError makes an error of the store, or of the host of an input, one that activities return. If
// retrying cannot help, it is permanent and of that kind; otherwise it is an outage, which costs nothing but time. A cancellation
// stays what it is. It returns nil for nil.
func StoreError(kind string, err error) error {
	if judged, ok := errors.AsType[*Judged](err); ok {
		return judged // however deep: workflows see what is at the top
	}
	var fenced *store.FencedError
	var corrupt *store.CorruptError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &fenced):
		return Permanent(job.ErrorFenced, err)
	case errors.As(err, &corrupt):
		return Permanent(job.ErrorCorrupt, err)
	case store.Permanent(err):
		return Permanent(kind, err)
	case errors.Is(err, context.Canceled):
		return err
	}
	return &Judged{kind: job.ErrorOutage, cause: err}
}

// Plain returns for people an error that was made for workflows, without what lies around it.
func Plain(err error) error {
	if judged, ok := errors.AsType[*Judged](err); ok {
		return judged
	}
	return err
}

// Raised returns what an activity returns for err: the error that decides what follows, however deep it lies,
// and for an error of the store that nobody has judged yet, what StoreError makes of it.
func Raised(err error) error {
	var judged *Judged
	var op *store.OpError
	if errors.As(err, &judged) || errors.As(err, &op) {
		return StoreError(job.ErrorOutput, err)
	}
	return err
}
