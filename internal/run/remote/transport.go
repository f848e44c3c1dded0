package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/job"
)

// maxHeader is how many bytes the headers of an answer may have.
const maxHeader = 256 << 10

// newClient returns a client of one origin. allowed: it may have addresses of the machine's own network. No proxy is
// used: it would hide which address is called.
func newClient(origin string, allowed bool, connections int, roots *x509.CertPool) *http.Client {
	dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	if !allowed {
		dialer.Control = refuseOwn
	}
	return &http.Client{
		CheckRedirect: func(next *http.Request, via []*http.Request) error { return checkRedirect(origin, next, via) },
		Transport: &http.Transport{
			DialContext:            dialer.DialContext,
			TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2:      true,
			HTTP2:                  &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
			TLSHandshakeTimeout:    15 * time.Second,
			IdleConnTimeout:        90 * time.Second,
			MaxIdleConns:           connections,
			MaxIdleConnsPerHost:    connections,
			MaxResponseHeaderBytes: maxHeader,
		},
	}
}

// redirectError reports a redirect that is not followed.
type redirectError struct{ reason string }

func (e *redirectError) Error() string { return e.reason }

// checkRedirect follows redirects within an origin, if the request stays what it is: 303 alone asks for a GET.
func checkRedirect(origin string, next *http.Request, via []*http.Request) error {
	const most = 10
	if len(via) >= most {
		return &redirectError{fmt.Sprintf("more than %d redirects", most)}
	}
	target, err := Origin(next.URL.Scheme + "://" + next.URL.Host)
	if err != nil || next.URL.User != nil {
		return &redirectError{"it redirects to what is no URL of HTTP"}
	}
	if target != origin {
		return &redirectError{"it redirects to another origin, " + target + ". If that is right, use it in the URL"}
	}
	status := 0
	if next.Response != nil {
		status = next.Response.StatusCode
	}
	if last := via[len(via)-1].Method; next.Method != last && status != http.StatusSeeOther {
		return &redirectError{fmt.Sprintf("it redirects to %s with status %d, which would make a %s of the %s. "+
			"Use that in the URL", text.Cut(next.URL.Redacted(), shown), status, next.Method, last)}
	}
	return nil
}

// sendFault returns why there is no answer.
func (e *Endpoint) sendFault(err error) *Fault {
	err = bare(err)
	var address *addressError
	var redirect *redirectError
	var wrongHost x509.HostnameError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &address):
		return newFault(Stop, TypeAddress, "%s is not called: %s. If it should be, allow the origin %s on the worker, "+
			"then resume the job", e.name, address, e.url.origin)
	case errors.As(err, &redirect):
		return newFault(Fail, TypeRedirect, "%s: %s", e.name, e.Redact(redirect.reason))
	case errors.As(err, &wrongHost), errors.As(err, &certificate):
		return newFault(Stop, TypeTLS, "%s: the server's certificate is not accepted: %s. Check the host's name, "+
			"the worker's clock, and the authorities that the worker trusts; then resume the job", e.name,
			e.Redact(certificateText(err)))
	case errors.Is(err, http.ErrSchemeMismatch):
		return newFault(Stop, TypeWrongURL, "%s: the server speaks HTTP, not HTTPS. Check the URL, then start the job "+
			"with the right one", e.name)
	case strings.Contains(err.Error(), "response headers exceeded"),
		strings.Contains(err.Error(), "response header list"):
		return newFault(Fail, TypeTooLarge, "%s: the headers of the answer have more than %d bytes", e.name, maxHeader)
	}
	return newFault(Again, TypeNetwork, "%s: %s", e.name, e.Redact(err.Error()))
}

func certificateText(err error) string {
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) {
		err = certificate.Err
	}
	return strings.TrimPrefix(err.Error(), "x509: ")
}

// readAnswer returns a body of at most limit bytes. The error is a *Fault, or why ctx is done.
func (e *Endpoint) readAnswer(ctx context.Context, answer *http.Response, limit int64) ([]byte, error) {
	if answer.ContentLength > limit {
		return nil, e.tooLarge(limit)
	}
	body, err := readBody(answer, limit+1)
	switch {
	case int64(len(body)) > limit:
		return nil, e.tooLarge(limit)
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		f := newFault(Again, TypeNetwork, "%s: the answer ended after %d bytes, before its end: %s",
			e.answered(answer.StatusCode), len(body), e.Redact(err.Error()))
		f.Status = answer.StatusCode
		return nil, f
	}
	return body, nil
}

// believed is how many bytes of memory an answer gets because it says that it has so many.
const believed = 64 << 10

// readBody returns a body, at most limit bytes of it. It is io.ReadAll, but for the memory that it begins with.
func readBody(answer *http.Response, limit int64) ([]byte, error) {
	expected := answer.ContentLength
	if expected < 0 {
		expected = 512
	}
	body := make([]byte, 0, min(expected+1, believed, limit)) // the end is found by reading on
	for int64(len(body)) < limit {
		if len(body) == cap(body) {
			body = slices.Grow(body, 1)
		}
		n, err := answer.Body.Read(body[len(body):min(int64(cap(body)), limit)])
		body = body[:len(body)+n]
		if err == io.EOF {
			break
		}
		if err != nil {
			return body, err
		}
	}
	return body, nil
}

func (e *Endpoint) tooLarge(limit int64) *Fault {
	f := newFault(Fail, TypeTooLarge, "%s: the answer has more than %d bytes", e.name, limit)
	if e.array {
		f.Kind = job.KindLength // fewer items have a smaller answer
	}
	return f
}
