package command

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// parseShell returns the template of a script for a shell: sh, dash or bash, or a path to it. A placeholder becomes a
// reference to a variable, quoted as its place asks for: values are never text of the script. A script without a
// placeholder has the item as $1, unless it is given in another way.
//
// The variables get their values before the script begins, from its arguments, which it does not see: a function has
// arguments of its own, and set and shift change them.
func parseShell(script, shell string, given bool) (*Template, error) {
	var dialect syntax.LangVariant
	switch path.Base(shell) {
	case "sh", "dash":
		dialect = syntax.LangPOSIX
	case "bash":
		dialect = syntax.LangBash
	default: // they evaluate in other places
		return nil, fmt.Errorf("shell %q: use sh, dash or bash", shell)
	}
	s := &scriptTemplate{script: script}
	if err := s.mark(); err != nil {
		return nil, err
	}
	if err := s.place(dialect); err != nil {
		return nil, err
	}
	switch {
	case len(s.found) == 0 && given:
		return s.template(shell, script, nil), nil
	case len(s.found) == 0:
		return s.template(shell, script, []*placeholder{{text: "{}"}}), nil
	}
	var assign strings.Builder
	var values []*placeholder
	for i, f := range s.found {
		fmt.Fprintf(&assign, "%s=${%d} ", variable(i), i+1)
		values = append(values, f.placeholder)
	}
	return s.template(shell, strings.TrimSuffix(assign.String(), " ")+"; set --; "+s.quoted(), values), nil
}

// scriptTemplate is a script on its way to a template.
type scriptTemplate struct {
	script string
	marked string // the script with marks in place of placeholders
	prefix string // of a mark
	found  []*foundPlaceholder
}

// foundPlaceholder is a placeholder of a script, and where it stands.
type foundPlaceholder struct {
	*placeholder
	mark  string
	quote quoting
}

// quoting is what stands before and behind a reference to a variable, for a place in a script.
type quoting struct{ before, after string }

var (
	bare         = quoting{`"`, `"`}
	inDouble     = quoting{"", ""}
	inSingle     = quoting{`'"`, `"'`}
	inAnsiSingle = quoting{`'"`, `"$'`}
)

func variable(i int) string { return fmt.Sprintf("stint_%d", i+1) }

func (s *scriptTemplate) template(shell, script string, values []*placeholder) *Template {
	t := &Template{}
	for _, text := range []string{shell, "-c", script, path.Base(shell)} {
		t.words = append(t.words, word{{text: text}})
	}
	for _, value := range values {
		t.words = append(t.words, word{{value: value}})
	}
	return t
}

// mark puts marks in place of placeholders, which mean nothing to a shell. A brace that belongs to the shell stays: one
// behind a $, before white space, and one that closes what no placeholder has opened.
func (s *scriptTemplate) mark() error {
	s.prefix = "StintValue"
	for strings.Contains(s.script, s.prefix) {
		s.prefix += "X"
	}
	var b strings.Builder
	for text := s.script; text != ""; {
		n := strings.IndexByte(text, '{')
		if n < 0 {
			b.WriteString(strings.ReplaceAll(text, "}}", "}"))
			break
		}
		b.WriteString(strings.ReplaceAll(text[:n], "}}", "}"))
		before := text[:n]
		text = text[n:]
		inside, rest, closed := strings.Cut(text[1:], "}")
		switch {
		case strings.HasPrefix(text, "{{"):
			b.WriteByte('{')
			text = text[2:]
		case strings.HasSuffix(before, "$"):
			n := expansion(text)
			b.WriteString(text[:n])
			text = text[n:]
		case len(text) == 1 || strings.ContainsRune(" \t\n", rune(text[1])):
			b.WriteByte('{')
			text = text[1:]
		case !closed:
			return fmt.Errorf("%q has no } behind it: for a brace write {{", text)
		default:
			p, err := parsePlaceholder(inside)
			if err != nil {
				return err
			}
			f := &foundPlaceholder{placeholder: p, mark: fmt.Sprintf("%s%dEnd", s.prefix, len(s.found))}
			s.found = append(s.found, f)
			b.WriteString(f.mark)
			text = rest
		}
	}
	s.marked = b.String()
	return nil
}

// expansion returns how much of a text that begins with a brace is a parameter expansion: as far as its braces go.
func expansion(text string) int {
	depth := 0
	for i, c := range text {
		switch c {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(text)
}

// place finds out where the marks stand, and refuses places where a value cannot be.
func (s *scriptTemplate) place(dialect syntax.LangVariant) error {
	file, err := syntax.NewParser(syntax.Variant(dialect)).Parse(strings.NewReader(s.marked), "")
	if err != nil {
		return fmt.Errorf("the script cannot be parsed: %w", s.unmarked(err))
	}
	w := &placing{s: s, placed: map[*foundPlaceholder]bool{}}
	syntax.Walk(file, w.visit)
	if w.err != nil {
		return w.err
	}
	for _, f := range s.found {
		if !w.placed[f] {
			return fmt.Errorf("%s stands where no value can be, such as in a comment or a name", f.text)
		}
	}
	return nil
}

// unmarked has an error name placeholders in the place of marks.
func (s *scriptTemplate) unmarked(err error) error {
	text := err.Error()
	for _, f := range s.found {
		text = strings.ReplaceAll(text, f.mark, f.text)
	}
	return errors.New(text)
}

// quoted returns the script with references to variables in place of marks.
func (s *scriptTemplate) quoted() string {
	script := s.marked
	for i, f := range s.found {
		script = strings.ReplaceAll(script, f.mark, f.quote.before+"${"+variable(i)+"}"+f.quote.after)
	}
	return script
}

// placing looks at a script's nodes from the outside in.
type placing struct {
	s      *scriptTemplate
	above  []syntax.Node
	placed map[*foundPlaceholder]bool
	err    error
}

func (w *placing) visit(node syntax.Node) bool {
	if node == nil {
		w.above = w.above[:len(w.above)-1]
		return true
	}
	switch n := node.(type) {
	case *syntax.Lit:
		if _, quoted := w.parent(0).(*syntax.DblQuoted); quoted {
			w.set(n.Value, inDouble)
		} else if _, inWord := w.parent(0).(*syntax.Word); inWord {
			w.set(n.Value, bare)
		}
	case *syntax.SglQuoted:
		if n.Dollar {
			w.set(n.Value, inAnsiSingle)
		} else {
			w.set(n.Value, inSingle)
		}
	}
	w.above = append(w.above, node)
	return true
}

// parent returns the n-th node above the one that is visited; nil if there is none.
func (w *placing) parent(n int) syntax.Node {
	if at := len(w.above) - 1 - n; at >= 0 {
		return w.above[at]
	}
	return nil
}

// set notes how the placeholders in a text are quoted, unless the place is not for values.
func (w *placing) set(text string, q quoting) {
	for _, f := range w.s.found {
		if !strings.Contains(text, f.mark) {
			continue
		}
		if why := w.refusal(); why != "" {
			w.err = fmt.Errorf("%s stands %s", f.text, why)
			return
		}
		f.quote, w.placed[f] = q, true
	}
}

// evaluating are commands that read their arguments as a part of the script, as arithmetic, or as names of variables,
// whose indexes are arithmetic.
var evaluating = []string{
	"eval", "let", "trap", "alias", "unset", "declare", "typeset", "local", "readonly", "read", "mapfile", "readarray", "getopts",
}

// refusal returns why a value cannot be where the walk is; "" if it can.
func (w *placing) refusal() string {
	const index = "in an index, which a shell would evaluate: test that it is a number, and use a variable"
	for i, node := range w.above {
		var below syntax.Node
		if i+1 < len(w.above) {
			below = w.above[i+1]
		}
		switch n := node.(type) {
		case *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.LetClause, *syntax.CStyleLoop:
			return "in arithmetic, which a shell would evaluate: put it into a variable, and test that it is a number"
		case *syntax.TestClause:
			return "in [[ ]], where a shell may evaluate it: use [ ]"
		case *syntax.ParamExp:
			return "in ${ }: put it into a variable first"
		case *syntax.ExtGlob:
			return "in a pattern: put it into a variable first"
		case *syntax.CmdSubst:
			if n.Backquotes {
				return "in ` `, where quotes mean something else: use $( )"
			}
		case *syntax.DblQuoted:
			if n.Dollar {
				return `in $" ", which is translated: use " "`
			}
		case *syntax.Redirect:
			if n.Hdoc != nil && below == syntax.Node(n.Hdoc) {
				return "in a here-document, where it cannot be quoted: use printf"
			}
		case *syntax.Assign:
			if n.Index != nil && below == syntax.Node(n.Index) {
				return index
			}
		case *syntax.ArrayElem:
			if n.Index != nil && below == syntax.Node(n.Index) {
				return index
			}
		case *syntax.DeclClause:
			if slices.Contains(evaluating, n.Variant.Value) {
				return "behind " + n.Variant.Value + ", which may evaluate it: use a plain assignment"
			}
		case *syntax.CallExpr:
			if len(n.Args) > 0 {
				if name := n.Args[0].Lit(); slices.Contains(evaluating, name) {
					return "behind " + name + ", which may evaluate it"
				}
				for at, arg := range n.Args[1:] {
					if below == syntax.Node(arg) && n.Args[at].Lit() == "-v" {
						return "behind -v, as the name of a variable, which may be evaluated"
					}
				}
			}
		}
	}
	return ""
}
