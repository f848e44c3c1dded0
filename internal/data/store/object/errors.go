package object

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// LocationError says why a location cannot be understood. It is fs.ErrInvalid.
type LocationError struct {
	Location string
	Reason   string // what is wrong, and what to do about it
}

func (e *LocationError) Error() string { return fmt.Sprintf("location %q: %s", e.Location, e.Reason) }

// Is makes the error fs.ErrInvalid.
func (e *LocationError) Is(target error) bool { return target == fs.ErrInvalid }

// FencedError says that the object which must name the current run names another run, or none.
type FencedError struct {
	Key  string
	Want string // what the caller needed it to hold
	Have string // what it holds; empty if it is missing
}

func (e *FencedError) Error() string {
	if e.Have == "" {
		return fmt.Sprintf("%s does not name run %q any more: the store has been cleared", e.Key, e.Want)
	}
	return fmt.Sprintf("%s names run %q, not %q: a newer run has taken over", e.Key, e.Have, e.Want)
}

// ReplacedError says that an object was written or removed by another process, after the Writer that was to replace it
// had been created: see WriteOptions.Unchanged. Nothing was done. Retrying may help.
type ReplacedError struct {
	Op    string // "writing" or "deleting"
	Where string // the object
}

func (e *ReplacedError) Error() string {
	return fmt.Sprintf("%s %s: another process has written or removed it meanwhile", e.Op, e.Where)
}

// CorruptError says that an object is not what was once written under its key.
type CorruptError struct {
	Key    string
	Reason string

	Err error // fs.ErrNotExist for a missing object, otherwise nil
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s %s: it was changed after it was written; run the job again with --fresh", e.Key, e.Reason)
}

// Unwrap returns fs.ErrNotExist for a missing object.
func (e *CorruptError) Unwrap() error { return e.Err }

// OpError says what was done to an object, what went wrong and what to do next.
type OpError struct {
	Op    string // "reading", "writing", …
	Where string // the object
	Text  string // what went wrong; if empty, Err's own text
	Next  string // what to do, if that is known
	Err   error
}

func (e *OpError) Error() string {
	text := e.Text
	if text == "" {
		text = e.Err.Error()
	}
	if e.Next != "" {
		text += " (" + e.Next + ")"
	}
	return e.Op + " " + e.Where + ": " + text
}

// Unwrap returns what went wrong.
func (e *OpError) Unwrap() error { return e.Err }

// Doing returns err as an error of doing something: "reading /x". If it is one of a store, it says that itself already,
// and is returned as it is.
func Doing(what string, err error) error {
	if err == nil || errors.As(err, new(*OpError)) || errors.As(err, new(*ReplacedError)) {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Missing returns the error, which is fs.ErrNotExist, for something that is not there although
// package os reports another error.
func Missing(op, where, text string) error {
	return &OpError{Op: op, Where: where, Text: text, Err: fs.ErrNotExist}
}

// Full reports whether err says that there is no space left.
func Full(err error) bool { return isAny(err, fullErrnos) }

func isAny(err error, targets []error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// APIError is an error of the service behind a bucket.
type APIError interface {
	error
	ErrorCode() string
	ErrorMessage() string
}

// permanentCodes are the error codes of S3 that only a person can resolve.
var permanentCodes = map[string]bool{
	"AccessDenied": true, "AccountProblem": true, "AllAccessDisabled": true,
	"AuthorizationHeaderMalformed": true, "EntityTooLarge": true, "Forbidden": true,
	"IllegalLocationConstraintException": true, "InvalidAccessKeyId": true, "InvalidBucketName": true,
	"KeyTooLongError": true, "MethodNotAllowed": true, "MovedPermanently": true, "NoSuchBucket": true,
	"PermanentRedirect": true, "SignatureDoesNotMatch": true,
}

var permanentErrors = []error{fs.ErrNotExist, fs.ErrPermission, fs.ErrInvalid}

// Permanent reports whether retrying cannot help and a person has to act: a missing object or bucket, a lack of
// permission, a read-only file system, a file where a directory is needed or the reverse, an invalid location, a
// corrupt object, a newer run. It is false for nil, for cancellations, and for everything else, such as network errors
// and a full disk.
func Permanent(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if isAny(err, permanentErrors) || isAny(err, permanentErrnos) || errors.As(err, new(*FencedError)) || errors.As(err, new(*CorruptError)) {
		return true
	}
	api, ok := errors.AsType[APIError](err)
	return ok && permanentCodes[api.ErrorCode()]
}
