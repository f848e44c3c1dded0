//go:build noserver

// Command stint-worker is stint without a Temporal server: all commands of a cluster's workers and clients. It is built
// with the tag noserver.
package main

import (
	"github.com/stint-run/stint/starter"
	"github.com/stint-run/stint/worker"
)

func main() {
	starter.Main(worker.Handler{}, starter.Options{Name: "stint-worker"}) // --exec, --serve and the like give the handler
}
