// Package starter is stint's command line: one file a command.
package starter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// Exit codes of the program.
const (
	ExitOK          = 0   // every item ok
	ExitFailed      = 1   // the job or command failed
	ExitUsage       = 2   // wrong usage
	ExitSomeFailed  = 3   // finished, some items failed
	ExitStopped     = 4   // stopped before the end, can be resumed
	ExitStragglers  = 5   // stopped, with stragglers
	ExitInterrupted = 130 // second Ctrl-C
)

// Program is what the commands get of the world around them.
type Program struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Env            []string
	Dir            string // working directory
	// Signals brings the wishes to end: Ctrl-C and SIGTERM.
	Signals <-chan os.Signal
	// Terminal tells whether Stderr is a person's terminal.
	Terminal bool
	// Exit ends the process at once; the second wish to end is answered with it.
	Exit func(code int)
}

// Main runs one command line and returns its exit code.
func Main(ctx context.Context, p Program, args []string) int {
	root := newRoot(&p)
	root.SetArgs(args)
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	return p.report(root.ExecuteContext(ctx))
}

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

func usageError(format string, args ...any) error {
	return &codeError{code: ExitUsage, err: fmt.Errorf(format, args...)}
}

// report tells the person what went wrong and returns the exit code.
func (p *Program) report(err error) int {
	if err == nil {
		return ExitOK
	}
	code := ExitFailed
	var coded *codeError
	if errors.As(err, &coded) {
		code, err = coded.code, coded.err
	}
	if err != nil {
		fmt.Fprintf(p.Stderr, "stint: %v\n", err)
	}
	if code == ExitUsage {
		fmt.Fprintln(p.Stderr, "See 'stint --help' and 'stint COMMAND --help'.")
	}
	return code
}

func newRoot(p *Program) *cobra.Command {
	root := &cobra.Command{
		Use:   "stint",
		Short: "Durable batch work: a program or Go function over millions of records",
		Long: `stint cuts files with millions of records into batches, runs a program or Go function over them
on one machine or many, and writes the results in input order. It survives the death of any
process, pins a fault on the one record that causes it, and accounts for every record.

  stint run --exec 'tr a-z A-Z' big.jsonl -o out.jsonl

runs everything in one process. Interrupted or killed, the same command goes on.`,
		SilenceErrors: true, SilenceUsage: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError("unknown command %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError("%v", err) })
	root.AddCommand(
		newRun(p), newStart(p), newWorker(p), newServer(p), newList(p), newWorkers(p), newStatus(p), newWatch(p),
		newResults(p), newStop(p), newResume(p), newRedrive(p), newSet(p), newSchedules(p), newPlan(p),
	)
	return root
}

// wrongArgs makes cobra's complaints about arguments usage errors.
func wrongArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError("%s: %v", cmd.CommandPath(), err)
		}
		return nil
	}
}

// lookup finds a variable of the program's environment.
func (p *Program) lookup(name string) (string, bool) {
	for i := len(p.Env) - 1; i >= 0; i-- {
		if v := p.Env[i]; len(v) > len(name) && v[len(name)] == '=' && v[:len(name)] == name {
			return v[len(name)+1:], true
		}
	}
	return "", false
}

// Environ and LookupEnv let Temporal's environment configuration read the program's environment.
func (p *Program) Environ() []string                    { return p.Env }
func (p *Program) LookupEnv(name string) (string, bool) { return p.lookup(name) }
