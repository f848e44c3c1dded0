// Command stint runs batch work durably on Temporal; see package starter for its commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/stint-run/stint/internal/collector"
	"github.com/stint-run/stint/starter"
	"golang.org/x/term"
)

// A server in the process keeps some 60 MB alive, and a busy worker as much again.
const (
	heapFloor  = 180 << 20
	heapGrowth = 100 // percent
)

func main() {
	if os.Getenv("GOGC") == "" {
		collector.Pace(heapFloor, heapGrowth)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	dir, err := os.Getwd()
	if err != nil {
		dir = "."
	}
	os.Exit(starter.Main(context.Background(), starter.Program{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Environ(), Dir: dir,
		Signals: signals, Terminal: term.IsTerminal(int(os.Stderr.Fd())), Exit: os.Exit,
	}, os.Args[1:]))
}
