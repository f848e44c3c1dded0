package devserver

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// guardLoopback refuses requests that name another host, or come from a page of another origin, if
// the listener accepts connections from this machine only. Otherwise a web page could point a name
// of its site at the loopback address and act through the browser of whoever runs the server (DNS
// rebinding). A listener on other addresses has names that nobody knows here, and is not guarded.
func guardLoopback(l net.Listener, next http.Handler) http.Handler {
	if !IsLoopback(l.Addr().String()) {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !IsLoopback(r.Host) {
			http.Error(w, "invalid host "+r.Host+": open the web UI as localhost", http.StatusForbidden)
			return
		}
		for _, origin := range r.Header.Values("Origin") {
			if u, err := url.Parse(origin); err != nil || !strings.EqualFold(u.Host, r.Host) {
				http.Error(w, "invalid origin "+origin+": only the web UI's own pages may send requests", http.StatusForbidden)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// IsLoopback reports whether a host, with or without a port, is this machine alone. Any port is
// accepted, because one may be forwarded to this one.
func IsLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
