// Command stint runs batch work durably on Temporal; see package starter for its commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/stint-run/stint/starter"
	"golang.org/x/term"
)

func main() {
	// A server in the process keeps some 100 MB alive: at Go's default of 100 the collector would
	// take a sixth of the time, and another 100 MB buy most of that back.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200)
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
