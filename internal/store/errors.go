package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/stint-run/stint/internal/store/object"
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

// ProtectedError says that a location must not be written, replaced or removed, because of
// Access.Protect. It is fs.ErrPermission.
type ProtectedError struct {
	Location  string // as it was asked for
	Protected string // what would be changed
}

func (e *ProtectedError) Error() string {
	if e.Location == e.Protected {
		return fmt.Sprintf("%s belongs to the worker itself and is never written by a job: name another place", e.Location)
	}
	return fmt.Sprintf("%s would change %s, which belongs to the worker itself and is never written by a job: name another place", e.Location, e.Protected)
}

// Is makes the error fs.ErrPermission.
func (e *ProtectedError) Is(target error) bool { return target == fs.ErrPermission }

// Doing returns err as an error of doing something, unless it says that itself: see object.Doing.
func Doing(what string, err error) error { return object.Doing(what, err) }

// NoMatchError says that a pattern, directory or prefix that was given as input matches no objects.
type NoMatchError struct {
	Arg string // as the user wrote it
}

func (e *NoMatchError) Error() string {
	if IsPrefix(e.Arg) {
		return fmt.Sprintf("input %s holds no files (hidden ones do not count)", e.Arg)
	}
	return fmt.Sprintf("input %s matches no file (hidden ones do not count): check the pattern, and that the files lie where the worker runs", e.Arg)
}

// Permanent reports whether retrying cannot help and a person has to act: an input that matches
// nothing, and everything that object.Permanent names.
func Permanent(err error) bool {
	var noMatch *NoMatchError
	if errors.As(err, &noMatch) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	return object.Permanent(err)
}

// badLocation returns a *LocationError.
func badLocation(location, reason string) error {
	return &object.LocationError{Location: location, Reason: reason}
}
