package calls

import (
	"fmt"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/codec"
	"github.com/stint-run/stint/internal/jsonscan"
	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/job"
)

// CheckResult returns why a value in JSON cannot be a result: it would spoil an output for those who read it. The error is
// its item's.
func CheckResult(value []byte) *Fault {
	if !utf8.Valid(value) {
		at := 0
		for at < len(value) {
			r, size := utf8.DecodeRune(value[at:])
			if r == utf8.RuneError && size == 1 {
				break
			}
			at += size
		}
		return badResult(fmt.Sprintf("is not valid UTF-8 at byte %d", at))
	}
	if jsonscan.TooDeep(value) {
		return badResult(fmt.Sprintf("is nested deeper than %s", text.Thousands(jsonscan.MaxNesting)))
	}
	return nil
}

// CheckEncoded is CheckResult for what enc has written.
func CheckEncoded(value []byte, enc codec.Encoder) *Fault {
	if enc.Clean() {
		return nil
	}
	return CheckResult(value)
}

// NotJSON is the fault of an item whose result is not JSON.
func NotJSON() *Fault {
	return badResult("is not JSON: a string of it has a control character, for example, or a number is NaN")
}

func badResult(why string) *Fault {
	return &Fault{Kind: job.KindError, Err: job.Error{Type: "InvalidResult", Message: "the result " + why}}
}
