package devserver

import (
	"errors"
	"net"
	"net/http"

	"github.com/stint-run/stint/internal/loopback"
)

// guardLoopback refuses requests that name another host, or come from a page of another origin, if
// the listener accepts connections from this machine only (see package loopback). A listener on other
// addresses has names that nobody knows here, and is not guarded.
func guardLoopback(l net.Listener, next http.Handler) http.Handler {
	if !loopback.Is(l.Addr().String()) {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := loopback.Check(r)
		if err == nil {
			next.ServeHTTP(w, r)
			return
		}
		hint := ": open the web UI as localhost"
		if origin := (*loopback.OriginError)(nil); errors.As(err, &origin) {
			hint = ": only the web UI's own pages may send requests"
		}
		http.Error(w, err.Error()+hint, http.StatusForbidden)
	})
}
