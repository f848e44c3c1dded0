package command_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stint-run/stint/internal/run/command"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		command string
		want    []string
	}{
		{`tr a-z A-Z`, []string{"tr", "a-z", "A-Z"}},
		{"  tr \t a-z\n", []string{"tr", "a-z"}},
		{`jq -c '.name | {a: $x}'`, []string{"jq", "-c", ".name | {a: $x}"}},
		{`awk "{ print \"a\" }"`, []string{"awk", `{ print "a" }`}},
		{`a 'it'\''s' b`, []string{"a", "it's", "b"}},
		{`a\ b c\\d`, []string{"a b", `c\d`}},
		{`a "b\c" "\\" "\$HOME"`, []string{"a", `b\c`, `\`, "$HOME"}},
		{`a '' ""`, []string{"a", "", ""}},
		{`a b"c"'d'e`, []string{"a", "bcde"}},
		{"a \"x\ny\"", []string{"a", "x\ny"}},
		{"a b\\\nc", []string{"a", "bc"}},
		{`a '#' b#c`, []string{"a", "#", "b#c"}},
		{`sed s/a=b/c=d/`, []string{"sed", "s/a=b/c=d/"}},
		{`jq '.[]'`, []string{"jq", ".[]"}},
		{`'~/a' \~/b "~" x~/c --d=~/e`, []string{"~/a", "~/b", "~", "x~/c", "--d=~/e"}},
		{`a é ☃`, []string{"a", "é", "☃"}},
		{`a - -- -x=y {} ! : , @ % + ~x`, []string{"a", "-", "--", "-x=y", "{}", "!", ":", ",", "@", "%", "+", "~x"}},
	} {
		got, err := command.Split(c.command)
		require.NoError(t, err, c.command)
		require.Equal(t, c.want, got, c.command)
	}
}

func TestSplit_RefusesWhatOnlyAShellCanDo(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		`a | b`, `a > b`, `a < b`, `a 2>&1`, `a && b`, `a || b`, `a; b`, `a &`, `(a)`, `a $(b)`, "a `b`",
		`a $HOME`, `a "$HOME"`, `a ${x:-y}`, `a $((1+2))`, `a 'open`, `a "open`, `cat *.txt`, `cat a?.txt`, `cat [ab].txt`,
		`~/filter`, `~root/filter x`, `cat ~`, `cat ~/"x y"`,
	} {
		argv, err := command.Split(line)
		if assert.Error(t, err, "%s gives %q", line, argv) {
			require.ErrorContains(t, err, "sh -c", line)
			require.ErrorContains(t, err, strconv.Quote(line), line)
		}
	}
	_, err := command.Split("  ")
	require.ErrorContains(t, err, "empty")
}

// Commands are split as a shell would, and run without one.
func ExampleSplit() {
	argv, err := command.Split(`grep -c 'two words' my\ file`)
	fmt.Printf("%q %v\n", argv, err)

	_, err = command.Split(`sort | uniq`)
	fmt.Println(err != nil)
	// Output:
	// ["grep" "-c" "two words" "my file"] <nil>
	// true
}
