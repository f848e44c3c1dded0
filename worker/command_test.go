package worker

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

func words(argv ...string) CommandOptions { return CommandOptions{Words: argv} }

func TestCommand_OptionsThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o    CommandOptions
		says string
	}{
		{CommandOptions{}, "command: it is empty"},
		{words(""), "command: it is empty"},
		{CommandOptions{Words: []string{"true"}, Script: "true"}, "command: it has either words or a script"},
		{words("no-such-program-here", "{}"), "there is no such program in $PATH"},
		{words("echo", "{print $1}"), "there is no placeholder {print $1}"},
		{CommandOptions{Script: "echo `echo {}`"}, "{} stands in ` `"},
		{CommandOptions{Script: "true", Shell: "fish"}, `shell "fish": use sh, dash or bash`},
		{CommandOptions{Words: []string{"true"}, Result: "xml"}, `result "xml": use lines, json, record, none`},
		{CommandOptions{Words: []string{"true"}, Result: resultJSON, Tag: true}, "a tag is for lines"},
	} {
		require.ErrorContains(t, Command(c.o).Check(Options{}), c.says)
	}
	require.NoError(t, Command(words("{}")).Check(Options{}), "the program is the item's")
}

// What a command prints is its item's result, in each form.
func TestCommand_Results(t *testing.T) {
	t.Parallel()
	text := lines("a b", "3", "")
	for name, c := range map[string]struct {
		o       CommandOptions
		flatten bool
		want    string
	}{
		"lines":                        {words("printf", "%s\n%s\n", "<{}>", "{#}"), true, lines("<a b>", "1", "<3>", "2", "<>", "3")},
		"a last line without an end":   {words("printf", "%s", "{}x"), true, lines("a bx", "3x", "x")},
		"one line":                     {words("echo", "{}"), false, lines("a b", "3", "")},
		"no lines":                     {words("true"), true, ""},
		"no line where there is one":   {words("true"), false, "\n\n\n"},
		"tagged":                       {CommandOptions{Words: []string{"seq", "{#}"}, Tag: true}, true, lines("a b\t1", "3\t1", "3\t2", "\t1", "\t2", "\t3")},
		"nothing":                      {CommandOptions{Words: []string{"echo", "{}"}, Result: resultNone}, true, ""},
		"one string":                   {CommandOptions{Words: []string{"printf", `%s\n`, "{}", `"`}, Result: resultJSON}, true, lines(`"a b\n\"\n"`, `"3\n\"\n"`, `"\n\"\n"`)},
		"a script":                     {CommandOptions{Script: "echo {} | tr a-z A-Z; echo $#"}, true, lines("A B", "0", "3", "0", "", "0")},
		"a script with an argument":    {CommandOptions{Script: `echo "$1" $#`}, true, lines("a b 1", "3 1", " 1")},
		"columns":                      {CommandOptions{Words: []string{"echo", "{-1}"}, Delimiter: " "}, true, lines("b", "3", "")},
		"on standard input":            {CommandOptions{Words: []string{"sed", "s/^/{#}:/"}, Stdin: true}, true, lines("1:a b", "2:3", "3:")},
		"nothing on standard input":    {words("sh", "-c", "cat; echo done"), true, lines("done", "done", "done")},
		"a status that is no failure":  {CommandOptions{Words: []string{"sh", "-c", "echo x; exit 1"}, OKExits: []int{0, 1}}, true, lines("x", "x", "x")},
		"a word without a placeholder": {words("echo", "-"), true, lines("- a b", "- 3", "- ")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.flatten = c.flatten
			o := f.run(Command(c.o), "in.txt", text)
			require.Empty(t, o.failures)
			require.Equal(t, c.want, o.output)
		})
	}
}

func TestCommand_Record(t *testing.T) {
	t.Parallel()
	f := setup(t)
	o := f.run(Command(CommandOptions{Words: []string{"sh", "-c", "echo out; echo err >&2; exit 3"}, Result: resultRecord, OKExits: []int{3}}),
		"in.jsonl", lines(`{"a":1}`))
	require.Empty(t, o.failures)
	var r commandRecord
	require.NoError(t, json.Unmarshal([]byte(o.output), &r))
	require.Positive(t, r.Seconds)
	r.Seconds = 0
	require.Equal(t, commandRecord{Item: json.RawMessage(`{"a":1}`), Stdout: "out\n", Stderr: "err\n", Exit: 3}, r)
}

// Fields of records and objects are words, and an item without one fails alone.
func TestCommand_Fields(t *testing.T) {
	t.Parallel()
	f := setup(t)
	h := Command(words("echo", "--name={name}", "{mail}"))
	o := f.run(h, "people.csv", lines("name,mail", `"Ann B",a@x`, "Bob,"))
	require.Equal(t, lines("--name=Ann B a@x", "--name=Bob "), o.output)
	require.Empty(t, o.failures)
	f = setup(t)
	o = f.run(h, "people.jsonl", lines(`{"name":"Ann","mail":1}`, `{"name":"Bob"}`, `{"name":"Cy","mail":null}`, `{"name":"Di","mail":"d"}`))
	require.Equal(t, lines("--name=Ann 1", "--name=Di d"), o.output)
	require.Equal(t, []int64{1, 2}, o.items())
	require.Equal(t, job.KindInvalid, o.failures[0].Kind)
	require.Equal(t, `{mail}: the item has no field "mail"`, o.failures[0].Error.Message)
	require.Equal(t, "{mail}: the value is null", o.failures[1].Error.Message)
}

// A command that fails, fails its own item, and nothing else is run again.
func TestCommand_Failures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o                  CommandOptions
		kind, typ, message string
		stack              string
	}{
		"exit status":      {words("sh", "-c", "echo why >&2; exit 3"), job.KindExit, "Exit", "exit 3: why", "why\n"},
		"signal":           {words("sh", "-c", "kill -TERM $$"), job.KindCrash, "Signal", "signal: terminated", ""},
		"no program":       {words("{}"), job.KindExit, "Exit", `exit 127: command "bad": there is no such program in $PATH`, ""},
		"several lines":    {words("sh", "-c", "seq 2"), job.KindInvalid, "Invalid", "the command has printed 2 lines, and the job takes one result for each item", ""},
		"too long a word":  {words("echo", "{}"+strings.Repeat("x", 128<<10)), job.KindInvalid, "Invalid", "{}: the word has more than 131071 bytes", ""},
		"too long a list":  {words(slicesRepeat("echo", strings.Repeat("x", 120<<10), 30)...), job.KindInvalid, "Invalid", "the command is longer than the system takes", ""},
		"too much output":  {words("sh", "-c", "exec yes {}"), job.KindInvalid, "Invalid", "", ""},
		"output not UTF-8": {CommandOptions{Words: []string{"printf", `\377{}`}, Result: resultJSON}, job.KindInvalid, "Invalid", "the command's output is not UTF-8", ""},
		"0 is a failure":   {CommandOptions{Words: []string{"true", "{}"}, OKExits: []int{1}}, job.KindExit, "Exit", "exit 0, which is none of the statuses", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			o := f.run(Command(c.o), "in.txt", lines("bad"))
			require.Len(t, o.failures, 1)
			require.Contains(t, o.failures[0].Error.Message, c.message)
			if c.message != "" {
				require.Equal(t, c.kind, o.failures[0].Kind)
				require.Equal(t, c.typ, o.failures[0].Error.Type)
			}
			require.Equal(t, c.stack, o.failures[0].Error.Stack)
			require.Empty(t, o.output)
		})
	}
}

// slicesRepeat returns a word, and another one so often.
func slicesRepeat(first, other string, n int) []string {
	all := []string{first}
	for range n {
		all = append(all, other)
	}
	return all
}

func TestCommand_OnlyTheFailedItem(t *testing.T) {
	t.Parallel()
	f := setup(t)
	o := f.run(Command(words("sh", "-c", `echo "$1" >> `+f.dir+`/ran; [ "$1" != 7 ] && echo ok`, "sh", "{}")), "in.txt", numbers(20))
	require.Equal(t, []int64{6}, o.items())
	require.Equal(t, strings.Repeat("ok\n", 19), o.output)
	require.Equal(t, 20, strings.Count(f.read(filepath.Join(f.dir, "ran")), "\n"), "each once")
	require.Zero(t, o.totals.Isolations)
}

// numbers are the lines 1 … n.
func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strconv.Itoa(i + 1))
		b.WriteByte('\n')
	}
	return b.String()
}

// An item is tried again as often as it may be; a status of 75 asks to slow down.
func TestCommand_TriesAgain(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.limits.ItemAttempts, f.limits.Backoff = 3, time.Millisecond
	script := f.script(`echo x >> $BOX/tries; [ $(wc -l < $BOX/tries) -ge 3 ] && echo ok`)
	o := f.run(Command(words(script, "{}")), "in.txt", lines("a"))
	require.Empty(t, o.failures)
	require.Equal(t, "ok\n", o.output)
	f = setup(t)
	script = f.script(`echo x >> $BOX/tries; if [ $(wc -l < $BOX/tries) -ge 2 ]; then echo ok; else echo "retry-after: 0.2" >&2; exit 75; fi`)
	o = f.run(Command(words(script, "{}")), "in.txt", lines("a"))
	require.Empty(t, o.failures)
	require.Equal(t, "ok\n", o.output)
}

// A command that takes too long is ended with all that it has started, and only its item fails.
func TestCommand_Expires(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.limits.Timeout, f.limits.Attempts = 500*time.Millisecond, 1
	o := f.run(Command(CommandOptions{Script: `if [ {} = 2 ]; then sleep 1000 & echo $! > ` + f.dir + `/pid; wait; fi; echo {}`}), "in.txt", lines("1", "2", "3"))
	require.Equal(t, lines("1", "3"), o.output)
	require.Equal(t, []int64{1}, o.items())
	require.Equal(t, job.KindExpired, o.failures[0].Kind)
	pid, err := strconv.Atoi(strings.TrimSpace(f.read(filepath.Join(f.dir, "pid"))))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return !alive(pid) }, time.Minute, time.Millisecond)
}

// A program that vanishes while the job runs is the worker's fault, and no item's.
func TestCommand_Vanishes(t *testing.T) {
	t.Parallel()
	f := setup(t)
	script := f.script(`rm -f "$0"; echo ok`)
	h := Command(words(script, "{}"))
	require.NoError(t, h.Check(f.options))
	handler, service, err := h.open(dependencies{options: f.options.withDefaults(), log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer service.Close()
	require.Equal(t, calls.Traits{Form: calls.Lines, OneByOne: true}, handler.Traits())
	require.NoError(t, os.Remove(script))
	require.ErrorContains(t, h.Check(f.options), "cannot be run")
}
