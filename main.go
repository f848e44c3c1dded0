// Command stint runs batch work durably on Temporal; see package starter for its commands.
package main

import (
	"github.com/stint-run/stint/starter"
	"github.com/stint-run/stint/worker"
)

func main() {
	starter.Main(worker.Handler{}, starter.Options{Name: "stint"}) // --exec and --serve give the handler
}
