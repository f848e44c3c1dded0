package starter

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/stint-run/stint/internal/collector"
	"github.com/stint-run/stint/worker"
	"golang.org/x/term"
)

// Main is the main function of a program with all of stint's commands around a handler:
//
//	func main() { starter.Main(worker.Each(Assess)) }
//
// Built as risk, it is `risk run in.csv -o out.jsonl` with everything embedded, `risk worker --pool
// risk --allow ROOT` on every machine of a cluster, `risk start --pool risk …` there, and all other commands of
// stint. They use the handler, and refuse --exec and --serve. With the zero Handler they are stint's own commands, and these flags give the handler.
//
// At most one Options is used. Main calls [worker.ChildMain] with the handler first, as Options.Worker.Processes requires. It
// never returns: it ends the process with one of the exit
// codes.
func Main(h worker.Handler, options ...Options) {
	worker.ChildMain(h)
	collector.PaceServer()
	var o Options
	if len(options) > 0 {
		o = options[0]
	}
	if o.Name == "" {
		o.Name = strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signal.Notify(signals, syscall.SIGHUP)
	}
	dir, err := os.Getwd()
	if err != nil {
		dir = "."
	}
	os.Exit(Execute(context.Background(), Program{
		Stdin: standardInput(), Stdout: os.Stdout, outputClosed: outputClosed(), OutliveReaders: outliveReaders, Stderr: os.Stderr, Env: os.Environ(), Dir: dir,
		Signals: signals, Terminal: term.IsTerminal(int(os.Stderr.Fd())), TerminalOut: term.IsTerminal(int(os.Stdout.Fd())), Exit: os.Exit,
		Width: func() int {
			width, _, _ := term.GetSize(int(os.Stderr.Fd())) // 0 if there is an error
			return width
		},
		Handler: h, Options: o,
	}, os.Args[1:]))
}
