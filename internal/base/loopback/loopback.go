// Package loopback guards servers that listen on this machine only against web pages. A page of another site can point
// a name of its own at the loopback address, and act through the browser of whoever runs the server (DNS rebinding).
package loopback

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Is reports whether a host, with or without a port, is this machine alone. Any port is accepted, because one may be
// forwarded to this one.
func Is(host string) bool {
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

// HostError reports a request that names another host.
type HostError struct{ Host string }

func (e *HostError) Error() string { return fmt.Sprintf("invalid host %s", e.Host) }

// OriginError reports a request that a page of another origin has sent.
type OriginError struct{ Origin string }

func (e *OriginError) Error() string { return fmt.Sprintf("invalid origin %s", e.Origin) }

// Check returns a *[HostError] or an *[OriginError] unless a request to a server on loopback names this machine, and
// comes from a program, or from a page of the server's own.
func Check(r *http.Request) error {
	if !Is(r.Host) {
		return &HostError{Host: r.Host}
	}
	for _, origin := range r.Header.Values("Origin") {
		if u, err := url.Parse(origin); err != nil || !strings.EqualFold(u.Host, r.Host) {
			return &OriginError{Origin: origin}
		}
	}
	return nil
}
