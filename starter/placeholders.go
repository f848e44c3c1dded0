package starter

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// placeholder is a word of a command that stands for the item with many programs, and not here: a filter gets its items on its standard input.
var placeholder = regexp.MustCompile(`^[^\s{}]*\{[.#/]{0,2}\}[^\s{}]*$`)

// ownPlaceholders are programs for which braces are their own matter: they replace them, or they run code that may have them.
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
		quoted := make([]string, len(argv))
		for i, arg := range argv {
			quoted[i] = shellWord(placeholders.ReplaceAllString(arg, "{}"))
		}
		command := shellWord(`xargs -d "\n" -I{} ` + strings.Join(quoted, " "))
		return usageError("--exec: nothing replaces %s: the command gets its items on its standard input, a line each; to run it once for each item: --exec %s", word, command)
	}
	return nil
}

// placeholders are those in a word.
var placeholders = regexp.MustCompile(`\{[.#/]{0,2}\}`)

// assignment is a word that a shell takes for a variable in front of a command.
var assignment = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)=`)

// checkProgram refuses a command that begins with the value of a variable, as only a shell knows it.
func checkProgram(flag string, argv []string) error {
	if found := assignment.FindStringSubmatch(argv[0]); found != nil {
		return usageError("--%s: the command is run without a shell, and %s=… is no program: give variables with --env %[2]s=VALUE", flag, found[1])
	}
	return nil
}
