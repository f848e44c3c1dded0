package remote

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/stint-run/stint/job"
)

// statusFault returns what an answer means that is no result: by its body if that says that no item can succeed, by
// x-should-retry, and then by its status.
func (e *Endpoint) statusFault(status int, header http.Header, body []byte) *Fault {
	said := problemOf(body)
	f := &Fault{Verdict: Fail, Kind: job.KindError, Type: fmt.Sprintf("HTTP%d", status), Status: status}
	f.Message = e.answered(status) + e.quoteStart(body)
	wait, stated := statedWait(header, said, e.now())
	retry := strings.ToLower(strings.TrimSpace(header.Get("X-Should-Retry")))
	sure := said.noCredit() || said.wrongKey() || said.unknownModel(e.model != nil)
	if (retry != "true" || sure) && e.stops(f, said) {
		return f
	}
	switch {
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly,
		status == http.StatusTooManyRequests, status >= 500:
		f.Verdict = Again
	}
	switch retry {
	case "true":
		f.Verdict = Again
	case "false":
		f.Verdict = Fail
	}
	if status == http.StatusTooManyRequests {
		f.Type = TypeRateLimit
	}
	if f.Verdict == Again {
		f.Wait, f.SlowDown = wait, status == http.StatusTooManyRequests || stated && wait > 0
	}
	return f
}

// answered returns who has answered, and with which status.
func (e *Endpoint) answered(status int) string {
	return strings.TrimSpace(fmt.Sprintf("%s answered %d %s", e.name, status, http.StatusText(status)))
}

// stops makes a fault one that stops the job, if it is.
func (e *Endpoint) stops(f *Fault, said *problem) bool {
	status, next := f.Status, ""
	switch {
	case status == http.StatusPaymentRequired || said.noCredit():
		f.Type, next = TypeNoCredit, "Add credit to the account, then resume the job"
	case status == http.StatusUnauthorized,
		(status == http.StatusForbidden || status == http.StatusBadRequest) && said.wrongKey() && e.alike():
		f.Type = TypeWrongKey
		next = "Check the key in the worker's environment or header file, and what it may do; then resume the job"
	case (status == http.StatusNotFound || status == http.StatusForbidden || status == http.StatusBadRequest) &&
		said.unknownModel(e.model != nil) && e.alike():
		f.Type = TypeUnknownModel
		next = "Check the model's name, and whether the key may use it; then start the job with the right one"
	case (status == http.StatusNotFound || status == http.StatusMethodNotAllowed) &&
		e.url.fixed != nil && !e.worked.Load():
		f.Type, next = TypeWrongURL, "Check the URL and the method, then start the job with the right ones"
	default:
		return false
	}
	f.Verdict = Stop
	f.Message += ". " + next
	return true
}

// alike reports whether an answer that refuses a key or a model is most likely that of all items. Where items choose
// what is asked for, or others have had a result, it may be about one item only.
func (e *Endpoint) alike() bool { return e.model != nil || e.url.fixed != nil && !e.worked.Load() }
