//go:build noserver

package devserver

import (
	"context"
	"errors"
)

// Linked and TemporalVersion: this program has no server.
const (
	Linked          = false
	TemporalVersion = ""
)

// Server is never running.
type Server struct{}

// errNone is the error of Start.
var errNone = errors.New("this program has no Temporal server: it is built for the workers and clients of a cluster; the program stint has one")

// Start returns an error.
func Start(context.Context, Options) (*Server, error) { return nil, errNone }

// Address, UIURL and Namespace are empty, and Stop does nothing.
func (*Server) Address() string   { return "" }
func (*Server) UIURL() string     { return "" }
func (*Server) Namespace() string { return "" }
func (*Server) Stop()             {}
