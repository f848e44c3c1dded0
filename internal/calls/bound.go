package calls

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/limits"
	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/job"
)

// What is kept of an error, in bytes, whatever handler it is of: it goes into a part, and may go into a
// history. What is longer is cut, and says so.
const (
	MaxErrorType    = 200      // its beginning
	MaxErrorMessage = 64 << 10 // its beginning
	MaxErrorStack   = 64 << 10 // its beginning and its end: some languages put the cause last
)

// leftOutLimit is more than the note about what was left out needs, in bytes.
const leftOutLimit = 64

// Bounded returns the error with all of its texts within their limits. The texts of an error that is
// cut share no memory with the original's.
func Bounded(e job.Error) job.Error {
	return job.Error{
		Type: cut(e.Type, MaxErrorType), Message: cut(e.Message, MaxErrorMessage), Stack: cutMiddle(e.Stack, MaxErrorStack),
	}
}

// within reports whether no text of the error is too long.
func within(e *job.Error) bool {
	return len(e.Type) <= MaxErrorType && len(e.Message) <= MaxErrorMessage && len(e.Stack) <= MaxErrorStack
}

// bounded returns the fault with its error bounded. It does not change f.
func (f *Fault) bounded() *Fault {
	if within(&f.Err) {
		return f
	}
	b := *f
	b.Err = Bounded(f.Err)
	return &b
}

// cut keeps the beginning of a text, in no more than limit bytes, which are more than a rune's.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return text.Cut(s, limit-len("…"))
}

// cutMiddle keeps the beginning and the end of a text, in no more than limit bytes.
func cutMiddle(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	half := (limit - leftOutLimit) / 2
	begin := strings.TrimSuffix(text.Cut(s, half), "…")
	at := len(s) - half
	for at < len(s) && !utf8.RuneStart(s[at]) {
		at++
	}
	return fmt.Sprintf("%s\n… %d bytes left out …\n%s", begin, at-len(begin), s[at:])
}

// MaxResult is the most bytes that a handler's result for one item may have as JSON: as much as an item's default.
const MaxResult = limits.DefaultMaxItem

// TooLargeFault is why an item has failed whose result has more than [MaxResult] bytes.
func TooLargeFault(bytes int) *Fault {
	return &Fault{Kind: job.KindError, Err: job.Error{
		Type: "TooLarge", Message: fmt.Sprintf("the result has %d bytes: the limit is %d", bytes, MaxResult),
	}}
}
