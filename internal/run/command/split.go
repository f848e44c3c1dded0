package command

import (
	"errors"
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Split splits a command as a shell would, quotes and backslashes included, but does not run
// one: what needs a shell (pipes, variables, redirections, globs …) is an error.
func Split(line string) ([]string, error) {
	var argv []string
	parser := syntax.NewParser(syntax.Variant(syntax.LangPOSIX))
	for word, err := range parser.WordsSeq(strings.NewReader(line)) {
		if err != nil {
			return nil, fmt.Errorf("command %q: %w: it is run without a shell; for shell syntax say sh -c '…'", line, err)
		}
		arg, err := plainWord(line, word.Parts)
		if err != nil {
			return nil, err
		}
		argv = append(argv, arg)
	}
	if len(argv) == 0 {
		return nil, errors.New("the command is empty")
	}
	return argv, nil
}

func plainWord(line string, parts []syntax.WordPart) (string, error) {
	var arg strings.Builder
	for i, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			if hasGlob(p.Value) || i == 0 && isHome(p.Value) {
				return "", shellOnly(line)
			}
			arg.WriteString(unescape(p.Value, ""))
		case *syntax.SglQuoted:
			arg.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, inner := range p.Parts {
				lit, ok := inner.(*syntax.Lit)
				if !ok {
					return "", shellOnly(line)
				}
				arg.WriteString(unescape(lit.Value, "$`\"\\"))
			}
		default:
			return "", shellOnly(line)
		}
	}
	return arg.String(), nil
}

// isHome reports whether a shell would put a home directory in place of the beginning of a word.
func isHome(literal string) bool {
	return literal == "~" || strings.HasPrefix(literal, "~") && strings.Contains(literal, "/")
}

// hasGlob reports whether a shell would look for files that match.
func hasGlob(literal string) bool {
	for i := 0; i < len(literal); i++ {
		switch literal[i] {
		case '\\':
			i++
		case '*', '?', '[':
			return true
		}
	}
	return false
}

func shellOnly(line string) error {
	return fmt.Errorf("command %q needs a shell, and is run without one: quote what is meant literally, or say sh -c '…'", line)
}

// unescape removes backslashes: before any byte, or only before those given.
func unescape(s, only string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			if s[i+1] == '\n' {
				i++
				continue
			}
			if only == "" || strings.IndexByte(only, s[i+1]) >= 0 {
				i++
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
