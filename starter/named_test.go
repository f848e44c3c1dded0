package starter_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
	"mvdan.cc/sh/v3/syntax"
)

var (
	// inText are commands that documents name in a line of text, inMessage those that messages and help texts do.
	inText    = regexp.MustCompile("`(stint [a-z][^`]*)`")
	inMessage = regexp.MustCompile(`'(stint|%(?:\[\d+\])?[sv]) ([a-z-]+)( [^'\n"]*)?'`)
	verbs     = regexp.MustCompile(`%(\[\d+\])?[a-z]`)
)

// calls are the commands of stint in a piece of shell, each with its words; those that are not plain text are "x".
func calls(text string) (lines [][]string) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil { // with ellipses and the like
		return [][]string{strings.Fields(text)[1:]}
	}
	syntax.Walk(file, func(node syntax.Node) bool {
		call, is := node.(*syntax.CallExpr)
		if !is || len(call.Args) == 0 || call.Args[0].Lit() != "stint" {
			return true
		}
		words := make([]string, 0, len(call.Args))
		for _, word := range call.Args[1:] {
			if lit := word.Lit(); lit != "" {
				words = append(words, lit)
			} else {
				words = append(words, "x")
			}
		}
		lines = append(lines, words)
		return true
	})
	return lines
}

// requireExists requires that a command line has a command and flags that exist. Their values need not be any, if a document only says
// what they are like.
func requireExists(t *testing.T, where string, words []string, exact bool) {
	t.Helper()
	root := starter.Commands()
	root.InitDefaultCompletionCmd(words...)
	cmd, rest, err := root.Find(words)
	require.NoError(t, err, "%s: stint %q", where, words)
	require.True(t, !cmd.HasSubCommands() || len(rest) == 0 || strings.HasPrefix(rest[0], "-"), "%s: no command: stint %q", where, words)
	err = cmd.ParseFlags(rest)
	var unknown *pflag.NotExistError
	if errors.Is(err, pflag.ErrHelp) || !exact && !errors.As(err, &unknown) {
		return
	}
	require.NoError(t, err, "%s: stint %q", where, words)
}

// TestD34_EveryCommandThatIsNamedExists: those of documents, and those of messages and help texts.
func TestD34_EveryCommandThatIsNamedExists(t *testing.T) {
	t.Parallel()
	docs, err := filepath.Glob(filepath.Join(root(t), "docs", "*.md"))
	require.NoError(t, err)
	checked := 0
	check := func(where string, words []string, exact bool) {
		if len(words) > 0 {
			requireExists(t, where, words, exact)
			checked++
		}
	}
	for _, file := range append(docs, filepath.Join(root(t), "README.md")) {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, block := range fenced(string(data), "sh") {
			for _, words := range calls(block) {
				check(file, words, true)
			}
		}
		for _, found := range inText.FindAllStringSubmatch(string(data), -1) {
			for _, words := range calls(found[1]) {
				check(file, words, false)
			}
		}
	}
	var names []string
	for _, cmd := range starter.Commands().Commands() {
		names = append(names, cmd.Name())
		for _, found := range inText.FindAllStringSubmatch(cmd.Long+cmd.Example, -1) {
			check(cmd.Name(), strings.Fields(found[1])[1:], false)
		}
	}
	for _, dir := range []string{"starter", "local", "job", "worker", "activities"} {
		files, err := filepath.Glob(filepath.Join(root(t), dir, "*.go"))
		require.NoError(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, found := range inMessage.FindAllStringSubmatch(string(data), -1) {
				if found[1] == "stint" || slices.Contains(names, found[2]) { // otherwise the verb is something else
					check(file, append([]string{found[2]}, strings.Fields(verbs.ReplaceAllString(found[3], "x"))...), false)
				}
			}
		}
	}
	require.Greater(t, checked, 150, "the patterns find nothing any more")
}
