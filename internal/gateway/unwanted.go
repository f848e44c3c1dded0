package gateway

import (
	"errors"
	"io"
	"net/http"
)

// maxUnwanted is how much of a body that is not wanted is read, so that the connection can be used again. It is net/http's own limit.
const maxUnwanted = 256 << 10 // bytes

// skipBody reads the body of a request that needs none, before the request takes a place. Otherwise net/http would read it when
// the answer is sent, and nobody would notice until then that the client has left. The server's ReadTimeout limits how long that
// takes; it ends with the body, so a long answer may follow.
func skipBody(a *answer, r *http.Request) error {
	err := unwanted(r)
	if err != nil {
		a.Header().Set("Connection", "close") // there may be more of the body
	}
	return err
}

func unwanted(r *http.Request) error {
	tooLarge := &requestError{status: http.StatusRequestEntityTooLarge, kind: typeTooLarge, message: "the request has a large body: send none here"}
	if r.ContentLength > maxUnwanted {
		return tooLarge
	}
	_, err := io.CopyN(io.Discard, r.Body, maxUnwanted+1)
	switch {
	case err == nil:
		return tooLarge
	case errors.Is(err, io.EOF):
		return nil
	case isTimeout(err):
		return &requestError{status: http.StatusRequestTimeout, kind: typeTimeout, message: "the request's body has not come in time: send none here"}
	}
	return badRequest("reading the request: %v", err)
}
