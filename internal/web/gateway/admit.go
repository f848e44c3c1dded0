package gateway

import (
	"errors"
	"net/http"

	"github.com/stint-run/stint/internal/base/loopback"
	"github.com/stint-run/stint/internal/web/tokens"
)

// admit returns an error if a request of a route may not be answered.
func (g *Gateway) admit(rt route, r *http.Request) error {
	if g.options.Loopback {
		if err := loopback.Check(r); err != nil {
			hint := ": use localhost"
			if origin := (*loopback.OriginError)(nil); errors.As(err, &origin) {
				hint = ": web pages may not use the gateway"
			}
			return &requestError{status: http.StatusForbidden, kind: "ForbiddenError", message: err.Error() + hint}
		}
	}
	if rt.open || g.options.Tokens == nil {
		return nil
	}
	switch token := tokens.Bearer(r); {
	case token == "":
		return unauthorized("no token given: send the header 'Authorization: Bearer TOKEN'")
	case !g.options.Tokens.Has(token):
		return unauthorized("wrong token")
	}
	return nil
}

func unauthorized(message string) error {
	return &requestError{status: http.StatusUnauthorized, kind: "UnauthorizedError", message: message}
}
