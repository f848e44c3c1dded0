package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// DeniedError says that a location lies outside the roots that Access.Allow names. It is
// fs.ErrPermission.
type DeniedError struct {
	Location string   // as it was asked for
	Allow    []string // the roots
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("%s is outside what may be reached here (%s): move it there, or start the worker with --allow for its place",
		e.Location, strings.Join(e.Allow, ", "))
}

// Is makes the error fs.ErrPermission.
func (e *DeniedError) Is(target error) bool { return target == fs.ErrPermission }

// LocationError says why a location cannot be understood. It is fs.ErrInvalid.
type LocationError struct {
	Location string
	Reason   string // with what to do about it
}

func (e *LocationError) Error() string { return fmt.Sprintf("location %q: %s", e.Location, e.Reason) }

// Is makes the error fs.ErrInvalid.
func (e *LocationError) Is(target error) bool { return target == fs.ErrInvalid }

// NoMatchError says that a pattern, directory or prefix given as input holds no objects.
type NoMatchError struct {
	Arg string // as the user wrote it
}

func (e *NoMatchError) Error() string {
	if IsPrefix(e.Arg) {
		return fmt.Sprintf("input %s holds no files (hidden ones do not count)", e.Arg)
	}
	return fmt.Sprintf("input %s matches no file (hidden ones do not count): check the pattern, and that the files lie where the worker runs", e.Arg)
}

// FencedError says that the object which must name the current run names another.
type FencedError struct {
	Key  string
	Want string // what the caller needed it to hold
	Have string // what it holds; empty where it is missing
}

func (e *FencedError) Error() string {
	if e.Have == "" {
		return fmt.Sprintf("%s names no run, and not %q: the store has been cleared meanwhile", e.Key, e.Want)
	}
	return fmt.Sprintf("%s names %q, not %q: a newer run has taken over", e.Key, e.Have, e.Want)
}

// CorruptError says that an object is not what was once written under its key.
type CorruptError struct {
	Key    string
	Reason string

	err error // fs.ErrNotExist for a missing object
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s %s: it was changed after it was written; run the job again with --fresh", e.Key, e.Reason)
}

// Unwrap returns fs.ErrNotExist for a missing object.
func (e *CorruptError) Unwrap() error { return e.err }

// opError says what was done, where, what went wrong and what to do next.
type opError struct {
	op, where, next string
	text            string // instead of err's own
	err             error
}

func (e *opError) Error() string {
	text := e.text
	if text == "" {
		text = e.err.Error()
	}
	if e.next != "" {
		text += " (" + e.next + ")"
	}
	return e.op + " " + e.where + ": " + text
}

func (e *opError) Unwrap() error { return e.err }

// fileError wraps an error of package os: the path it carries is often a temporary one and gives
// way to where.
func fileError(op, where string, err error) error {
	if err == nil {
		return nil
	}
	var pathErr *fs.PathError
	var linkErr *os.LinkError
	var callErr *os.SyscallError
	switch {
	case errors.As(err, &pathErr):
		err = pathErr.Err
	case errors.As(err, &linkErr):
		err = linkErr.Err
	case errors.As(err, &callErr):
		err = callErr.Err
	}
	return &opError{op: op, where: where, next: nextStep(err), err: err}
}

func nextStep(err error) string {
	switch {
	case isAny(err, fullErrnos):
		return "free some space there, then resume"
	case errors.Is(err, syscall.EROFS):
		return "mount it writable, or name another place"
	case errors.Is(err, syscall.ENOTDIR):
		return "a file stands where a directory is needed"
	case errors.Is(err, syscall.EISDIR):
		return "a directory stands where a file is needed"
	case errors.Is(err, fs.ErrPermission):
		return "give the worker's user access to it"
	}
	return ""
}

// missing is the error for something that is not there in a way that package os does not call
// fs.ErrNotExist.
func missing(op, where, text string) error {
	return &opError{op: op, where: where, text: text, err: fs.ErrNotExist}
}

func isAny(err error, errnos []syscall.Errno) bool {
	for _, errno := range errnos {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// apiError is how the services behind buckets name their errors.
type apiError interface {
	error
	ErrorCode() string
	ErrorMessage() string
}

// permanentCodes are the answers of S3 that a person has to do something about.
var permanentCodes = map[string]bool{
	"AccessDenied": true, "AccountProblem": true, "AllAccessDisabled": true,
	"AuthorizationHeaderMalformed": true, "EntityTooLarge": true, "Forbidden": true,
	"IllegalLocationConstraintException": true, "InvalidAccessKeyId": true, "InvalidBucketName": true,
	"KeyTooLongError": true, "MethodNotAllowed": true, "MovedPermanently": true, "NoSuchBucket": true,
	"PermanentRedirect": true, "SignatureDoesNotMatch": true,
}

// Permanent tells whether no retry will mend err, only a person: a missing object or bucket, a
// lack of permission, a read-only or full file system (a batch job would only spin on it), a file
// in the place of a directory or the reverse, a location denied, not valid or of an unknown
// scheme, an input that matches nothing, a corrupt object, a newer run. It is false for nil, for
// cancellations, and for all else, such as the faults of a network.
func Permanent(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	for _, target := range []error{fs.ErrNotExist, fs.ErrPermission, fs.ErrInvalid} {
		if errors.Is(err, target) {
			return true
		}
	}
	var noMatch *NoMatchError
	var fenced *FencedError
	var corrupt *CorruptError
	if errors.As(err, &noMatch) || errors.As(err, &fenced) || errors.As(err, &corrupt) {
		return true
	}
	var api apiError
	if errors.As(err, &api) && permanentCodes[api.ErrorCode()] {
		return true
	}
	return isAny(err, fullErrnos) || isAny(err, permanentErrnos)
}
