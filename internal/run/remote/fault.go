package remote

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stint-run/stint/job"
)

// Verdict is what becomes of items without a result.
type Verdict int

const (
	// Fail: another try would end in the same way.
	Fail Verdict = iota
	// Again: another try may succeed.
	Again
	// Stop: no item can succeed before somebody has changed something. The job stops, and can be resumed.
	Stop
)

// Types of faults that are not a status ("HTTP418") or a finish reason ("FinishLength").
const (
	TypeTemplate     = "Template"       // the item has no request: a value is missing, or cannot stand where it should
	TypeNetwork      = "Network"        // no answer, or half of one
	TypeTLS          = "TLS"            // the server's certificate does not fit
	TypeAddress      = "AddressRefused" // the host has an address that may not be called
	TypeRedirect     = "Redirect"       // to another origin, or one that would change the method
	TypeTooLarge     = "AnswerTooLarge" // more than Options.MaxAnswer, or headers of more than 256 KiB
	TypeNotJSON      = "NotJSON"        // the answer should be JSON
	TypeResultPath   = "ResultPath"     // it gives no value, several, or an error
	TypeSchema       = "Schema"         // the result does not fit the schema
	TypeLength       = "Length"         // the answer is no array with an element for each item
	TypeAnswer       = "Answer"         // of a model, which is not what its provider documents
	TypeRateLimit    = "RateLimit"      // status 429
	TypeNoCredit     = "NoCredit"
	TypeWrongKey     = "WrongKey"
	TypeUnknownModel = "UnknownModel"
	TypeWrongURL     = "WrongURL"
)

// Fault is why items have no result. Its texts hold no secrets.
type Fault struct {
	Verdict Verdict
	Kind    string // one of job.Kind…
	Type    string
	Message string
	Status  int // 0: there was no answer
	// Unfit says that an answer with status 2xx has come as a whole, and does not fit: a server that remembers the key of
	// the request would give the same one again.
	Unfit bool
	// SlowDown says that the server refuses because of how much it is asked, or states a wait: nothing is wrong with
	// the items. Wait is what it states; 0: nothing, or no wait.
	SlowDown bool
	Wait     time.Duration
	// Usage is what the answer cost, as far as it says so.
	Usage Usage
}

func (f *Fault) Error() string { return f.Type + ": " + f.Message }

func newFault(verdict Verdict, kind, format string, args ...any) *Fault {
	return &Fault{Verdict: verdict, Kind: job.KindError, Type: kind, Message: fmt.Sprintf(format, args...)}
}

// shown is how much of a server's text is shown, in bytes.
const shown = 200

// start returns the beginning of a text of a server, on one line, without secrets.
func (e *Endpoint) start(body []byte) string {
	if len(body) > errorBody {
		body = body[:errorBody]
	}
	s := strings.ToValidUTF8(e.secrets.cleanStart(string(body)), "\uFFFD")
	var b strings.Builder
	space := false
	for _, c := range s {
		switch {
		case unicode.IsSpace(c) || unicode.IsControl(c):
			space = b.Len() > 0
			continue
		case !unicode.IsPrint(c):
			c = utf8.RuneError
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		if b.Len()+utf8.RuneLen(c) > shown {
			b.WriteString("…")
			break
		}
		b.WriteRune(c)
	}
	return b.String()
}

// quoteStart is start behind a colon; "" if there is nothing to show.
func (e *Endpoint) quoteStart(body []byte) string {
	if s := e.start(body); s != "" {
		return ": " + s
	}
	return ""
}

// Redact returns a text with … in place of the endpoint's secrets.
func (e *Endpoint) Redact(s string) string { return e.secrets.clean(s) }
