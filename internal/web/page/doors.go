package page

import (
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/stint-run/stint/internal/base/loopback"
	"github.com/stint-run/stint/internal/web/tokens"
)

// policy is what a browser may load for the page: what this server has, and nothing that stands in the page itself.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'"

// tokenParameter is that of an address which brings its token along, as a server prints it.
const tokenParameter = "token"

// admitted answers requests of a route that may be answered.
func (p *Page) admitted(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if err := p.checkOrigin(r); err != nil {
			p.fail(w, err)
			return
		}
		if rt.page && r.Method == http.MethodGet && p.takesToken(w, r) {
			return
		}
		switch err := p.checkToken(rt, r); {
		case err == nil:
			rt.handle(w, r)
		case rt.page:
			p.askForToken(w, r.URL.RequestURI(), "")
		default:
			p.fail(w, err)
		}
	})
}

// checkOrigin returns an error for a request that names another host, or comes from a page of another origin.
func (p *Page) checkOrigin(r *http.Request) error {
	if p.options.Loopback {
		if err := loopback.Check(r); err != nil {
			hint := ": open the page as localhost"
			if origin := (*loopback.OriginError)(nil); errors.As(err, &origin) {
				hint = ": only the page's own requests are answered"
			}
			return &requestError{http.StatusForbidden, "ForbiddenError", err.Error() + hint}
		}
		return nil
	}
	for _, origin := range r.Header.Values("Origin") {
		if u, err := url.Parse(origin); err != nil || !strings.EqualFold(u.Host, r.Host) {
			return &requestError{http.StatusForbidden, "ForbiddenError", (&loopback.OriginError{Origin: origin}).Error() + ": only the page's own requests are answered"}
		}
	}
	return nil
}

// checkToken returns an error for a request that needs a token and has none.
func (p *Page) checkToken(rt route, r *http.Request) error {
	if rt.open || p.options.Tokens == nil {
		return nil
	}
	token := tokens.Bearer(r)
	if cookie, err := r.Cookie(cookieName(r)); err == nil && token == "" {
		text, _ := base64.RawURLEncoding.DecodeString(cookie.Value) // what is no base64 is no token
		token = string(text)
	}
	switch {
	case token == "":
		return &requestError{http.StatusUnauthorized, "UnauthorizedError", "no token given: send the header 'Authorization: Bearer TOKEN'"}
	case !p.options.Tokens.Has(token):
		return &requestError{http.StatusUnauthorized, "UnauthorizedError", "wrong token"}
	}
	return nil
}

// cookieName is that of the cookie with the token: one for each port, because browsers give all ports of a host the same
// cookies.
func cookieName(r *http.Request) string {
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		return "stint-token"
	}
	return "stint-token-" + port
}

// takesToken takes the token that an address brings along, and leads to the address without it.
func (p *Page) takesToken(w http.ResponseWriter, r *http.Request) bool {
	query := r.URL.Query()
	token := query.Get(tokenParameter)
	if token == "" || p.options.Tokens == nil {
		return false
	}
	query.Del(tokenParameter)
	to := &url.URL{Path: r.URL.Path, RawQuery: query.Encode()}
	p.enter(w, r, token, to.String())
	return true
}

// enter gives a browser its cookie and leads to an address, or asks for the token once more.
func (p *Page) enter(w http.ResponseWriter, r *http.Request, token, to string) {
	if !p.options.Tokens.Has(token) {
		p.askForToken(w, to, "This is not the token.")
		return
	}
	// Cookies do not take all bytes that tokens may have.
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r), Value: base64.RawURLEncoding.EncodeToString([]byte(token)), Path: Path, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	})
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// login takes the token of the form.
func (p *Page) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	to := r.PostFormValue("to")
	if u, err := url.Parse(to); err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(path.Clean(u.Path)+"/", Path+"/") {
		to = Path + "/"
	}
	if p.options.Tokens == nil {
		http.Redirect(w, r, to, http.StatusSeeOther)
		return
	}
	p.enter(w, r, strings.TrimSpace(r.PostFormValue(tokenParameter)), to)
}

// loginView is what the form that asks for the token gets.
type loginView struct{ To, Wrong string }

func (p *Page) askForToken(w http.ResponseWriter, to, wrong string) {
	p.render(w, http.StatusUnauthorized, "login", &frame{Title: "Token", View: loginView{to, wrong}})
}
