//go:build !race

package testserver

import (
	"context"
	"log/slog"

	"github.com/stint-run/stint/internal/temporal/devserver"
)

// Start starts a server with its state in memory. The caller stops it.
func Start(ctx context.Context) (*devserver.Server, error) {
	return devserver.Start(ctx, devserver.Options{Logger: slog.New(slog.DiscardHandler)})
}
