// Package starter is stint's command line: a file for most commands; root.go lists them all. [Main] makes it a whole
// program, around a Go handler or, for stint itself, around any command.
package starter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/internal/base/collector"
	"github.com/stint-run/stint/internal/base/standard"
	"github.com/stint-run/stint/internal/base/valuelists"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/worker"
	"golang.org/x/term"
)

// Exit codes of the program.
const (
	ExitOK          = 0   // every item ok
	ExitFailed      = 1   // the job or command failed
	ExitUsage       = 2   // wrong usage
	ExitSomeFailed  = 3   // finished, some items failed
	ExitStopped     = 4   // stopped before the end, can be resumed
	ExitStragglers  = 5   // stopped, with stragglers
	ExitTimeout     = 124 // what was waited for has not come within --timeout
	ExitInterrupted = 130 // ended by Ctrl-C or TERM; of a command that serves, by the second one
)

// Options configure a program beside its handler. The zero value of a field means its default.
type Options struct {
	// Name is the program's name in its help and messages. Default: that of its file.
	Name string
	// About describes in a few lines what the program does; its help begins with it. Default: a text
	// about stint.
	About string
	// Worker are the options that the workers of `run`, `worker` and `plan --sample` start from: hooks
	// that jobs can name, sinks for counts, slots, and so on. The flags of the command line override
	// them. The commands set Stdin and Logger themselves.
	Worker worker.Options
	// Init, Shutdown and Cleanup name hooks (of Worker.Hooks, say) for every job that the program runs
	// or starts, unless --init, --shutdown or --cleanup name others. Default: none.
	Init, Shutdown, Cleanup []string
}

// Program is the environment of the commands.
type Program struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Env            []string
	Dir            string // working directory
	// Signals receives requests to end: Ctrl-C, SIGTERM and SIGHUP.
	Signals <-chan os.Signal
	// Terminal reports whether Stderr is a person's terminal, and TerminalOut whether Stdout is one.
	Terminal, TerminalOut bool
	// Width returns the columns of that terminal; nil or 0: not known.
	Width func() int
	// OutliveReaders has a write to standard output fail once its reader has ended, which otherwise ends the process;
	// nil: it does so already.
	OutliveReaders func()
	// Exit ends the process at once, on the second request to end.
	Exit func(code int)

	// Handler is the program's own. The zero Handler means that --exec or --serve give it.
	Handler worker.Handler
	Options Options

	lists        valuelists.Lists // of the command line; nil: it has none
	outputClosed bool             // results that go to Stdout would be lost

	server string // that a command talks to; "": none
	page   string // where stint's page of that server is; "": not known
	ui     string // where the web UI of the server is that a command has connected to, with the namespace; "": not known
}

// pageOf returns the address of a job's page: of stint's, or else of its readable page in Temporal's web UI; "" if
// neither is known.
func (p *Program) pageOf(r job.Report) string {
	if p.page != "" && r.Job != "" {
		return p.page + "/jobs/" + url.PathEscape(r.Job)
	}
	if p.ui == "" || r.Run == "" {
		return ""
	}
	return fmt.Sprintf("%s/workflows/%s/%s/user-metadata", p.ui, url.PathEscape(r.Job), r.Run)
}

// webUI notes where the web UI is, of a namespace; "": not known.
func (p *Program) webUI(address, namespace string) {
	if p.ui = ""; address != "" {
		p.ui = fmt.Sprintf("%s/namespaces/%s", strings.TrimSuffix(address, "/"), url.PathEscape(namespace))
	}
}

// Execute runs one command line and returns its exit code. [Main] calls it with the streams, the
// arguments and the environment of the process; tests call it with their own.
func Execute(ctx context.Context, p Program, args []string) int {
	args, lists, err := valuelists.Split(args)
	if err != nil {
		return p.report(usageError("%w", err))
	}
	p.lists = lists
	root := newRoot(&p)
	root.SetArgs(append([]string{}, args...)) // without any it would take those of the process
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	return p.report(root.ExecuteContext(ctx))
}

// name returns the program's name in help and messages.
func (p *Program) name() string { return cmp.Or(p.Options.Name, "stint") }

// builtIn reports whether the program has its own handler.
func (p *Program) builtIn() bool { return !p.Handler.IsZero() }

// codeError gives an error, which may be nil, an exit code.
type codeError struct {
	code int
	err  error
}

func (e *codeError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *codeError) Unwrap() error { return e.err }

// wraps reports whether an error is one of type E, or wraps one.
func wraps[E error](err error) bool {
	_, does := errors.AsType[E](err)
	return does
}

func usageError(format string, args ...any) error {
	return &codeError{code: ExitUsage, err: fmt.Errorf(format, args...)}
}

// report prints the error and returns the exit code.
func (p *Program) report(err error) int {
	if err == nil {
		return ExitOK
	}
	code := ExitFailed
	if coded, ok := errors.AsType[*codeError](err); ok {
		code, err = coded.code, coded.err
	}
	if err != nil {
		fmt.Fprintf(p.Stderr, "%s: %s\n", p.name(), p.sayWhoIsLate(err, describeError(err)))
	}
	if code == ExitUsage {
		fmt.Fprintf(p.Stderr, "See '%[1]s --help' and '%[1]s COMMAND --help'.\n", p.name())
	}
	return code
}

// wrongArgs makes what cobra finds wrong about a command's arguments a usage error, which says how the command is used.
func wrongArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check(cmd, args) == nil {
			return nil
		}
		path := cmd.CommandPath()
		_, wanted, _ := strings.Cut(cmd.Use, " ")
		if check(cmd, nil) == nil {
			return usageError("'%s' takes no arguments: leave %q out", path, strings.Join(args, " "))
		}
		if check(cmd, append(slices.Clone(args), "one more")) == nil || len(args) == 0 {
			return usageError("'%s' needs more arguments: '%[1]s %[2]s'", path, wanted)
		}
		return usageError("'%s' takes no more arguments than these: '%[1]s %[2]s'", path, wanted)
	}
}

// lookup finds a variable of the program's environment.
func (p *Program) lookup(name string) (string, bool) {
	for _, v := range slices.Backward(p.Env) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// Environ and LookupEnv let Temporal's environment configuration read the program's environment.
func (p *Program) Environ() []string                    { return p.Env }
func (p *Program) LookupEnv(name string) (string, bool) { return p.lookup(name) }

// defect ends the program because one of its own goroutines has panicked.
func (p *Program) defect(err error) {
	fmt.Fprintln(p.Stderr, "error:", err)
	p.Exit(ExitFailed)
}

// Main is the main function of a program with all of stint's commands around a handler:
//
//	func main() { starter.Main(worker.Each(Assess)) }
//
// Built as risk, it is `risk run in.csv -o out.jsonl` with everything embedded, `risk worker --pool risk --allow ROOT`
// on every machine of a cluster, `risk start --pool risk …` there, and all other commands of stint. They use the
// handler, and refuse --exec and --serve. With the zero Handler they are stint's own commands, and these flags give the
// handler.
//
// At most one Options is used. Main calls [worker.ChildMain] with the handler first, as Options.Worker.Processes
// requires. It never returns: it ends the process with one of the exit codes.
func Main(h worker.Handler, options ...Options) {
	worker.ChildMain(h)
	collector.PaceServer()
	var o Options
	if len(options) > 0 {
		o = options[0]
	}
	o.Name = cmp.Or(o.Name, strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe"))
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
		Stdin: standardInput(), Stdout: os.Stdout, outputClosed: standard.OutputClosed(), OutliveReaders: standard.OutliveReaders, Stderr: os.Stderr, Env: os.Environ(), Dir: dir,
		Signals: signals, Terminal: term.IsTerminal(int(os.Stderr.Fd())), TerminalOut: term.IsTerminal(int(os.Stdout.Fd())), Exit: os.Exit,
		Width: func() int {
			width, _, _ := term.GetSize(int(os.Stderr.Fd())) // 0 if there is an error
			return width
		},
		Handler: h, Options: o,
	}, os.Args[1:]))
}

// standardInput returns the standard input, or a reader that fails if it is closed.
func standardInput() io.Reader {
	if standard.InputClosed() {
		return closedFile{"input"}
	}
	return os.Stdin
}

// closedFile stands for a standard file that was closed when the program began. It is an io.Reader and an io.Writer.
type closedFile struct{ name string }

func (c closedFile) Read([]byte) (int, error)  { return 0, c.err() }
func (c closedFile) Write([]byte) (int, error) { return 0, c.err() }

func (c closedFile) err() error {
	return fmt.Errorf("the standard %s is closed: %w", c.name, fs.ErrClosed)
}

// checkStandard refuses a job that needs a standard file which is closed.
func (p *Program) checkStandard(spec job.Spec) error {
	if _, closed := p.Stdin.(closedFile); closed && slices.Contains(spec.Inputs(), job.StandardInput) {
		return usageError("the standard input is closed, and it is named as an input: connect it, or leave - out")
	}
	if p.outputClosed && spec.Output == "" {
		return usageError("the standard output is closed, and the results would go there: " +
			"name --output FILE (/dev/null throws them away, also where a program has opened it as this output)")
	}
	return nil
}

// results returns where the results of a job go that has no output of its own.
func (p *Program) results() io.Writer {
	if p.outputClosed {
		return closedFile{"output"}
	}
	return p.Stdout
}
