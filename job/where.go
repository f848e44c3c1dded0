package job

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/text"
)

// Where selects failures: conditions with white space between them, all of which must hold, such as
// "kind=expired,crash stage=score" or `type=RateLimit message="try again in *s" attempts>2`. At most 1,000 bytes as JSON.
//
// The keys are kind, type, message, stage, source and attempts. "=" holds if the value, or one of those in a list with
// commas, is that of the failure, "!=" if none is. A kind is one of Kind…; in type, stage and source * stands for any text.
// A message need only contain the value, in which * stands for any text as well. attempts is a number, and may be
// compared with <, <=, > and >=. A value with white space or commas, or one that begins with =, stands in quotes, double or
// single ones; within double quotes \" and \\ stand for " and \.
type Where string

// maxWhere bounds an expression, in bytes as JSON.
const maxWhere = 1000

const whereForm = `use key=value, such as kind=expired,crash or message="no such *"; the keys are kind, type, message, stage, source and attempts`

// Validate returns an error if w is no valid expression, or has no condition.
func (w Where) Validate() error {
	_, err := w.Matcher()
	return err
}

// Matcher returns a function that reports whether a failure is selected. Any number of goroutines may call it.
func (w Where) Matcher() (func(*Failure) bool, error) {
	all, err := parseConditions(string(w))
	if err != nil {
		return nil, err
	}
	return matcher(all)
}

// matcher returns a function that reports whether all conditions hold for a failure.
func matcher(all []condition) (func(*Failure) bool, error) {
	var holds []func(*Failure) bool
	for _, c := range all {
		hold, err := c.compile()
		if err != nil {
			return nil, err
		}
		holds = append(holds, hold)
	}
	return func(f *Failure) bool {
		return !slices.ContainsFunc(holds, func(hold func(*Failure) bool) bool { return !hold(f) })
	}, nil
}

// condition is one of an expression.
type condition struct {
	key, op string
	values  []string
}

// parseConditions reads an expression of at least one condition.
func parseConditions(expression string) ([]condition, error) {
	size := text.JSONSize(expression) - len(`""`)
	switch {
	case size > maxWhere:
		return nil, fmt.Errorf("the expression takes %s bytes as JSON: at most %s are allowed", text.Thousands(int64(size)), text.Thousands(maxWhere))
	case !utf8.ValidString(expression):
		return nil, fmt.Errorf("%q is not UTF-8", text.Cut(expression, 50))
	case strings.TrimSpace(expression) == "":
		return nil, errors.New("no condition given: " + whereForm)
	}
	var all []condition
	for rest := strings.TrimSpace(expression); rest != ""; rest = strings.TrimSpace(rest) {
		var c condition
		var err error
		if c, rest, err = nextCondition(rest); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// whereOps are the operators; one that begins with another one comes first.
var whereOps = []string{"!=", "<=", ">=", "=", "<", ">"}

// nextCondition reads the condition that rest begins with.
func nextCondition(rest string) (c condition, after string, err error) {
	n := strings.IndexAny(rest, "!=<> \t\r\n\"',")
	if n <= 0 || !strings.ContainsRune("!=<>", rune(rest[n])) {
		return c, "", fmt.Errorf("%q is no condition: %s", firstWord(rest), whereForm)
	}
	c.key, after = rest[:n], rest[n:]
	for _, op := range whereOps {
		if strings.HasPrefix(after, op) {
			c.op, after = op, after[len(op):]
			break
		}
	}
	if c.op == "" {
		return c, "", fmt.Errorf("%q is no condition: %s", firstWord(rest), whereForm)
	}
	for more := true; more; {
		var value string
		if value, after, err = nextValue(after); err != nil {
			return c, "", fmt.Errorf("%s: %w", c.key, err)
		}
		if value == "" {
			return c, "", fmt.Errorf("%s: no value given: %s", c.key, whereForm)
		}
		c.values = append(c.values, value)
		after, more = strings.CutPrefix(after, ",")
	}
	if after != "" && strings.TrimSpace(after) == after {
		return c, "", fmt.Errorf("%s: expected white space or a comma before %q", c.key, text.Cut(after, 50))
	}
	return c, after, nil
}

// firstWord returns the beginning of a text, for an error.
func firstWord(s string) string { return text.Cut(strings.Fields(s)[0], 50) }

// nextValue reads the value that rest begins with.
func nextValue(rest string) (value, after string, err error) {
	if rest == "" || rest[0] != '"' && rest[0] != '\'' {
		n := strings.IndexAny(rest, ", \t\r\n\"'")
		if n < 0 {
			n = len(rest)
		}
		if strings.HasPrefix(rest, "=") {
			return "", "", fmt.Errorf("%q: put a value that begins with \"=\" in quotes, or leave one \"=\" out", text.Cut(rest[:n], 50))
		}
		return rest[:n], rest[n:], nil
	}
	var b strings.Builder
	quote := rest[0]
	for i := 1; i < len(rest); i++ {
		c := rest[i]
		switch {
		case c == quote:
			return b.String(), rest[i+1:], nil
		case c == '\\' && quote == '"' && i+1 < len(rest) && (rest[i+1] == '"' || rest[i+1] == '\\'):
			i++
			c = rest[i]
		}
		b.WriteByte(c)
	}
	return "", "", fmt.Errorf("the quote in %q does not end", text.Cut(rest, 50))
}

// whereTexts are the keys whose values are texts, with how these are compared.
var whereTexts = map[string]struct {
	of     func(*Failure) string
	within bool // the value need only be contained
}{
	"kind":    {of: func(f *Failure) string { return f.Kind }},
	"type":    {of: func(f *Failure) string { return f.Error.Type }},
	"message": {of: func(f *Failure) string { return f.Error.Message }, within: true},
	"stage":   {of: func(f *Failure) string { return f.Stage }},
	"source":  {of: func(f *Failure) string { return f.Source }},
}

const attemptsKey = "attempts"

// compile returns a function that reports whether the condition holds.
func (c *condition) compile() (func(*Failure) bool, error) {
	key, known := whereTexts[c.key]
	switch {
	case c.key == attemptsKey:
		return c.compileAttempts()
	case !known:
		return nil, fmt.Errorf("%q: unknown key: %s", c.key, whereForm)
	case c.op != "=" && c.op != "!=":
		return nil, fmt.Errorf("%s%s: a text is compared with = or !=", c.key, c.op)
	}
	var patterns []glob
	for _, value := range c.values {
		if err := checkKind(c.key, value); err != nil {
			return nil, err
		}
		if key.within {
			value = "*" + value + "*"
		}
		patterns = append(patterns, newGlob(value))
	}
	wanted := c.op == "="
	return func(f *Failure) bool {
		value := key.of(f)
		return slices.ContainsFunc(patterns, func(g glob) bool { return g.matches(value) }) == wanted
	}, nil
}

// checkKind returns an error if the value of a key should be a kind of failure, and there is none of the name.
func checkKind(key, value string) error {
	if key != "kind" {
		return nil
	}
	var names []string
	for _, kind := range limits.FailureKinds {
		if kind.Name == value {
			return nil
		}
		names = append(names, kind.Name)
	}
	return fmt.Errorf("kind %q: unknown kind: use %s", value, strings.Join(names, ", "))
}

// compileAttempts is compile for numbers of attempts.
func (c *condition) compileAttempts() (func(*Failure) bool, error) {
	var numbers []int
	for _, value := range c.values {
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%s%s%s: use a whole number from 0 on", c.key, c.op, value)
		}
		numbers = append(numbers, n)
	}
	first := numbers[0]
	compare := map[string]func(int) bool{
		"=": func(n int) bool { return slices.Contains(numbers, n) }, "!=": func(n int) bool { return !slices.Contains(numbers, n) },
		"<": func(n int) bool { return n < first }, "<=": func(n int) bool { return n <= first },
		">": func(n int) bool { return n > first }, ">=": func(n int) bool { return n >= first },
	}[c.op]
	if len(numbers) > 1 && c.op != "=" && c.op != "!=" {
		return nil, fmt.Errorf("%s%s: compare it with one number", c.key, c.op)
	}
	return func(f *Failure) bool { return compare(f.Attempts) }, nil
}

// glob is a pattern, split at its *, which stand for any text.
type glob []string

func newGlob(pattern string) glob { return strings.Split(pattern, "*") }

// matches reports whether the pattern is that of the whole text.
func (g glob) matches(s string) bool {
	last := len(g) - 1
	if last == 0 {
		return s == g[0]
	}
	rest, ok := strings.CutPrefix(s, g[0])
	if !ok {
		return false
	}
	for _, piece := range g[1:last] {
		at := strings.Index(rest, piece)
		if at < 0 {
			return false
		}
		rest = rest[at+len(piece):]
	}
	return strings.HasSuffix(rest, g[last])
}

// quoted returns a value as an expression has it.
func quoted(value string) string {
	if !strings.ContainsAny(value, ", \t\r\n\"'\\") && !strings.HasPrefix(value, "=") {
		return value
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
}
