package starter

import (
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/stint-run/stint/internal/run/command"
	"github.com/stint-run/stint/worker"
)

// handlerKind is a kind of handler that can be given on the command line, and for a pool in a job file.
type handlerKind struct {
	flag  string
	usage string // the help of the flag
	value string // what it takes, in messages
	// open makes the handler of what the flag says; the options have what other flags say of it.
	open func(o *workerOptions, p *Program, value string) (worker.Handler, error)
	// each says that the handler runs a command for each item, of which the flags of commands say more.
	each bool
	// http says that the handler sends requests, of which other flags say more.
	http bool
}

// handlerKinds are all kinds, in the order of the help.
var handlerKinds = []handlerKind{
	{
		flag: "exec", value: "COMMAND", usage: "filter `COMMAND` to run: n lines in, n lines out; split like a shell would, run without one",
		open: program("exec", worker.Exec, checkPlaceholders),
	}, {
		flag: "serve", value: "COMMAND", usage: "`COMMAND` of a long-lived program that speaks the serve protocol (docs/protocol.md): one for each slot",
		open: program("serve", worker.Serve),
	}, {
		flag: "each", value: "COMMAND", usage: "`COMMAND` to run for each item, with {} in its place; split like a shell would, run without one", each: true,
		open: openCommand,
	}, {
		flag: "shell", value: "SCRIPT", usage: "`SCRIPT` for a shell to run for each item, with {} in its place: quoted, so that no value is run", each: true,
		open: openCommand,
	}, {
		flag: "http", value: "URL", usage: "`URL` that is sent each item as JSON (--body), and answers with its result; a method may stand before it: 'POST https://…' (default)", http: true,
		open: openHTTP,
	}, {
		flag: "llm", value: "PROVIDER", usage: "`PROVIDER` of a model to ask about each item: openai, anthropic, gemini, or the URL of a server with OpenAI's API", http: true,
		open: openLLM,
	},
}

// handlerFlags returns the flags of the kinds.
func handlerFlags() (flags []string) {
	for _, kind := range handlerKinds {
		flags = append(flags, kind.flag)
	}
	return flags
}

// splitCommand splits what a flag says as a shell would.
func splitCommand(flag, value string) ([]string, error) {
	argv, err := command.Split(value)
	switch {
	case err != nil && flag == "each":
		return nil, usageError("--each: %v, or use --shell, which quotes {} as its place asks for", err)
	case err != nil:
		return nil, usageError("--%s: %v", flag, err)
	}
	if found := assignment.FindStringSubmatch(argv[0]); found != nil { // only a shell knows that
		return nil, usageError(
			"--%s: the command is run without a shell, and %s=… is no program: give variables with --env %[2]s=VALUE", flag, found[1])
	}
	return argv, nil
}

// program opens handlers that are a program, whose words the checks may refuse.
func program(flag string, open func(argv ...string) worker.Handler, checks ...func(argv []string) error) func(*workerOptions, *Program, string) (worker.Handler, error) {
	return func(_ *workerOptions, _ *Program, value string) (worker.Handler, error) {
		argv, err := splitCommand(flag, value)
		if err != nil {
			return worker.Handler{}, err
		}
		for _, check := range checks {
			if err := check(argv); err != nil {
				return worker.Handler{}, err
			}
		}
		return open(argv...), nil
	}
}

// named returns the kinds of handlers that flags give.
func (o *workerOptions) named() []handlerKind {
	return slices.DeleteFunc(slices.Clone(handlerKinds), func(kind handlerKind) bool { return *o.handlers[kind.flag] == "" })
}

// choose returns the program's handler, or the one that the flags name.
func (o *workerOptions) choose(p *Program) (worker.Handler, error) {
	if p.builtIn() {
		if i := slices.IndexFunc(handlerFlags(), o.flags.Changed); i >= 0 {
			return worker.Handler{}, usageError("%s has its own handler: leave --%s out", p.name(), handlerKinds[i].flag)
		}
		return p.Handler, nil
	}
	if len(o.named()) == 0 {
		var all []string
		for _, kind := range handlerKinds {
			all = append(all, "--"+kind.flag+" "+kind.value)
		}
		return worker.Handler{}, usageError("no handler given: use %s", strings.Join(all, " or "))
	}
	return o.open(p)
}

// open returns the handler of the flags, one of which is set.
func (o *workerOptions) open(p *Program) (worker.Handler, error) {
	given := o.named()
	if len(given) > 1 {
		return worker.Handler{}, usageError("a worker has one handler: give either --%s or --%s", given[0].flag, given[1].flag)
	}
	if o.command.JobLog != "" {
		o.command.JobLog = p.path(o.command.JobLog)
	}
	return given[0].open(o, p, *o.handlers[given[0].flag])
}

// poolHandler returns the handler of a pool of a job file: one that its keys name, or the program's own.
func (o *workerOptions) poolHandler(p *Program) (worker.Handler, error) {
	switch {
	case len(o.named()) > 0:
		return o.open(p)
	case p.builtIn():
		return p.Handler, nil
	}
	return worker.Handler{}, errors.New("no handler given: use " + strings.Join(handlerFlags(), " or "))
}

// placeholder is a word of a command that stands for the item with many programs, and not here: a filter gets its items
// on its standard input.
var placeholder = regexp.MustCompile(`^[^\s{}]*\{[.#/]{0,2}\}[^\s{}]*$`)

// ownPlaceholders are programs for which braces are their own matter: they replace them, or they run code that may have
// them.
var ownPlaceholders = []string{
	"xargs", "find", "fd", "parallel", "rush", "awk", "gawk", "mawk", "jq", "yq", "jaq", "gojq", "sed", "perl", "python", "ruby", "node", "deno", "bun",
	"php", "lua", "sh", "bash", "dash", "zsh", "fish", "ksh", "busybox", "mlr", "duckdb", "sqlite3", "Rscript", "julia", "tclsh", "expr", "grep", "egrep", "rg",
}

// checkPlaceholders refuses a command of --exec with a placeholder that nothing would replace.
func checkPlaceholders(argv []string) error {
	for _, word := range argv {
		name := strings.TrimRight(filepath.Base(word), "0123456789.")
		if slices.Contains(ownPlaceholders, name) {
			return nil
		}
	}
	for _, word := range argv[1:] {
		if !placeholder.MatchString(word) {
			continue
		}
		return usageError("--exec: nothing replaces %s: the command gets its items on its standard input, a line each; "+
			"to run it once for each item: --each %s", word, command.Quote(command.Line(argv)))
	}
	return nil
}

// assignment is a word that a shell takes for a variable in front of a command.
var assignment = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)=`)
