package tokens

import (
	"errors"
	"fmt"
	"net"

	"github.com/stint-run/stint/internal/base/loopback"
)

// Guarded is a server over HTTP that needs tokens where others than this machine can reach it.
type Guarded struct {
	Name  string  // such as "the page"
	Could string  // what whoever reaches it could do without a token
	Known *Tokens // nil: none
}

// OpenError reports a server without tokens that others than this machine could reach.
type OpenError struct{ Address, Could string }

func (e *OpenError) Error() string {
	return fmt.Sprintf("without a token, whoever reaches %s could %s: name a file of tokens, or listen on 127.0.0.1", e.Address, e.Could)
}

// Check returns an *[OpenError] if the server may not listen at an address, HOST:PORT.
func (g Guarded) Check(address string) error {
	if g.Known == nil && !loopback.Is(address) {
		return &OpenError{Address: address, Could: g.Could}
	}
	return nil
}

// Listen takes an address, HOST:PORT. Its error is an *[OpenError] if the server may not listen there.
func (g Guarded) Listen(address string) (net.Listener, error) {
	if err := g.Check(address); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s cannot listen: use another address, or port 0 for a free one: %w", g.Name, err)
	}
	if err := g.Check(listener.Addr().String()); err != nil { // the name was this machine's only by its look
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}
