package job

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// W1: an expression selects failures by each of its keys.
func TestWhere(t *testing.T) {
	t.Parallel()
	f := &Failure{
		Item: 7, Stage: "score.a", Source: "/data/in.jsonl", Kind: KindError,
		Error: Error{Type: "RateLimit", Message: "slow down: \"x\", try again in 7s\nat line 3"}, Attempts: 3,
	}
	for _, w := range []Where{
		"kind=error", "kind=expired,error", "kind!=expired", "kind!=expired,crash", "type=RateLimit", "type=Rate*", "type=*Limit", "type=*e*i*",
		`type="RateLimit"`, `type='RateLimit'`, "type=Other,RateLimit", "message=again", `message="try again"`, `message='slow down: "x"'`,
		`message="\"x\", try"`, `message="slow*in *s"`, `message="at line"`, "stage=score.*", "stage=score.a", "source=*.jsonl", "attempts=3", "attempts=1,3", "attempts>2",
		"attempts>=3", "attempts<4", "attempts<=3", "attempts!=4", "  kind=error   type=RateLimit\n\tattempts=3 ", "message=*", "message!=never",
	} {
		require.NoError(t, w.Validate(), w)
		matches, err := w.Matcher()
		require.NoError(t, err)
		require.True(t, matches(f), w)
	}
	for _, w := range []Where{
		"kind=crash", "kind!=error", "kind!=crash,error", "type=Rate", "type=ratelimit", "type=*x", "type=Rate*Rate*", "message=never", `message="slow  down"`, "stage=score",
		"source=in.jsonl", "attempts=4", "attempts>3", "attempts<3", "kind=error type=Other", `message="slow*slow"`, "attempts>=4", "attempts<=2", "attempts!=3",
	} {
		matches, err := w.Matcher()
		require.NoError(t, err, w)
		require.False(t, matches(f), w)
	}
	matches, err := Where("stage=*").Matcher()
	require.NoError(t, err)
	require.True(t, matches(&Failure{}), "* is any text, also none")
}

func TestWhere_Invalid(t *testing.T) {
	t.Parallel()
	for w, want := range map[Where]string{
		"":                                    "no condition given",
		"  ":                                  "no condition given",
		"RateLimit":                           `"RateLimit" is no condition: use key=value`,
		"kind = error":                        `"kind" is no condition`,
		"=x":                                  `"=x" is no condition`,
		"type!x":                              `"type!x" is no condition`,
		"name=x":                              `"name": unknown key: use key=value, such as kind=expired,crash or message="no such *"; the keys are kind, type, message, stage, source and attempts`,
		"kind=timeout":                        `kind "timeout": unknown kind: use error, exit, crash, expired, invalid, length, lost`,
		"type=\xff":                           "is not UTF-8",
		"kind=":                               "kind: no value given",
		"kind=error,":                         "kind: no value given",
		"type=a,,b":                           "type: no value given",
		`message="no end`:                     "message: the quote in \"\\\"no end\" does not end",
		`message="a"b`:                        "message: expected white space or a comma before",
		`type=a"b"`:                           "type: expected white space or a comma before",
		"kind>error":                          "kind>: a text is compared with = or !=",
		"attempts=many":                       "attempts=many: use a whole number from 0 on",
		"attempts>-1":                         "attempts>-1: use a whole number",
		"attempts>1,2":                        "attempts>: compare it with one number",
		"type==RateLimit":                     `type: "=RateLimit": put a value that begins with "=" in quotes, or leave one "=" out`,
		"kind!=error type=a,=b":               `type: "=b": put a value`,
		"attempts>==3":                        `attempts: "=3": put a value`,
		"type=x and kind=error":               `"and" is no condition`,
		Where(strings.Repeat("type=x ", 150)): "the expression takes 1,050 bytes as JSON: at most 1,000 are allowed",
	} {
		require.ErrorContains(t, w.Validate(), want, w)
	}
}

func TestFailureGroup(t *testing.T) {
	t.Parallel()
	g := FailureGroup{Kind: KindError, Type: "PathError", Stage: "score", Pattern: `no "*" in C:\*`, Count: 7, Item: 1200, Message: "no x"}
	require.Equal(t, "stage score: error: no x (item 1,200)", g.String(), "14.15: no types of Go")
	require.EqualValues(t, `kind=error type=PathError stage=score message="no \"*\" in C:\\*"`, g.Where())
	matches, err := g.Where().Matcher()
	require.NoError(t, err)
	require.True(t, matches(&Failure{Kind: KindError, Stage: "score", Error: Error{Type: "PathError", Message: `no "a" in C:\b`}}))
	require.Equal(t, "error ValueError: ", FailureGroup{Kind: KindError, Type: "ValueError"}.Label())
	require.EqualValues(t, `kind=error type="=x"`, FailureGroup{Kind: KindError, Type: "=x"}.Where())
	require.NoError(t, FailureGroup{Kind: KindError, Type: "=x"}.Where().Validate())
	require.Empty(t, FailureGroup{Kind: KindExit, Type: "Exit"}.Label())
	require.Equal(t, "others", FailureGroup{Count: 3}.String())
}
