// Command serve is a Temporal server for tests, see package testserver. It writes its address
// in a line, and ends when its standard input does.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"

	"github.com/stint-run/stint/internal/temporal/devserver"
)

func main() {
	server, err := devserver.Start(context.Background(), devserver.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(server.Address())
	_, _ = io.Copy(io.Discard, os.Stdin)
	server.Stop()
}
