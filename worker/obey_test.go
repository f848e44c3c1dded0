package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/run/frames"
	"github.com/stint-run/stint/internal/test/pytest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// Handlers of every kind that do what their items say. An item is a JSON string:
//
//	null        the result null
//	drop        no result
//	size        the number of the call's items; 0 if it was handed over by itself
//	short       no result at all: the call has one too few
//	long        two results: the call has one too many
//	error TEXT  the item's error, of type Bad
//	fail TEXT   an error of the whole call, of type Whole
//	panic TEXT  what Go code may do
//	exit N      the process ends, with its last words
//	die FILE    the same, once a line has been added to the file
//	hang        until it is ended
//	nap MS      its own result, after so many milliseconds
//	tally FILE  adds a line to the file, and is an error
//	slower FILE adds a line to the file, and slows down if that is the first
//	later FILE  adds a line to the file, and is to be called again later if that is the first
//	third FILE  the same as tally, but no error once the file has three lines
//	join FILE   adds a line to the file, and waits until there are four
//	quit FILE   the same, and then the process ends
//	await FILE  waits until the file has three lines
//	fill FILE   adds a line to the file; the result is large
//	spend N     uses N tokens of a request and one of an answer, N millionths of a unit in all
//
// and, for the obedient program alone:
//
//	hold TIME SCOPE  starts a timer, which it keeps
//	let SCOPE        ends it
//	tight TIME FILE  starts a timer and ends it far behind, and adds a line to the file
//
// Everything else is its own result.

// Bad is the error of an item. Programs that are not in Go give it the same name.
type Bad struct{ text string }

func (e *Bad) Error() string { return e.text }

// Whole is the error of a call.
type Whole struct{ text string }

func (e *Whole) Error() string { return e.text }

// errHanging says that an item is to hang.
var errHanging = errors.New("hanging")

// errLater is why an item is to be called again later.
var errLater = errors.New("later")

// obey does what an item of a call of that size says.
func obey(item string, size int) (any, error) {
	do, arg, _ := strings.Cut(item, " ")
	switch do {
	case "null":
		return nil, nil
	case "drop":
		return nil, Drop
	case "size":
		return size, nil
	case "error":
		return nil, &Bad{arg}
	case "panic":
		panic(arg)
	case "exit":
		leave(arg)
	case "die":
		note(arg)
		leave("3")
	case "hang":
		return nil, errHanging
	case "nap":
		ms, err := strconv.Atoi(arg)
		must(err)
		time.Sleep(time.Duration(ms) * time.Millisecond)
	case "tally":
		note(arg)
		return nil, &Bad{"tallied"}
	case "slower":
		if note(arg) == 1 {
			return nil, SlowDown(pause)
		}
	case "later":
		if note(arg) == 1 {
			return nil, RetryAfter(pause, errLater)
		}
	case "third":
		if note(arg) < 3 {
			return nil, &Bad{"not yet"}
		}
	case "join":
		note(arg)
		await(arg, 4)
	case "quit":
		note(arg)
		await(arg, 4)
		leave("3")
	case "await":
		await(arg, 3)
	case "fill":
		note(arg)
		return strings.Repeat("x", large), nil
	case "large":
		size, err := strconv.Atoi(arg)
		must(err)
		return strings.Repeat("x", size-2), nil // without its quotes
	}
	return item, nil
}

// pause is how long the slow-down requests of items last.
const pause = 150 * time.Millisecond

func leave(status string) {
	fmt.Fprintln(os.Stderr, "last words")
	code, _ := strconv.Atoi(status)
	os.Exit(code)
}

// note adds a line to a file and returns how many it has.
func note(file string) int {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(err)
	_, err = f.WriteString("x\n")
	must(errors.Join(err, f.Close()))
	return count(file)
}

// count is how many lines a file has, 0 if it does not exist.
func count(file string) int {
	data, err := os.ReadFile(file)
	if !os.IsNotExist(err) {
		must(err)
	}
	return bytes.Count(data, []byte("\n"))
}

func await(file string, lines int) {
	for count(file) < lines {
		time.Sleep(time.Millisecond)
	}
}

// obeyEach is the function of an Each handler.
func obeyEach(ctx context.Context, item string) (any, error) {
	spend(ctx, item)
	result, err := obey(item, 0)
	if err == errHanging {
		<-ctx.Done()
		err = ctx.Err()
	}
	return result, err
}

// spentOn returns what an item uses, if it says so.
func spentOn(item string) (used job.Usage) {
	if n, found := strings.CutPrefix(item, "spend "); found {
		tokens, err := strconv.ParseInt(n, 10, 64)
		must(err)
		used = job.Usage{TokensIn: tokens, TokensOut: 1, Cost: job.Money(tokens) * 1_000_000}
	}
	return used
}

// spend uses what an item says.
func spend(ctx context.Context, item string) {
	if used := spentOn(item); !used.IsZero() {
		must(Cost(ctx, used))
	}
}

// obeyBatch is the function of a Batch handler.
func obeyBatch(ctx context.Context, items []string) ([]any, error) {
	results, errs := make([]any, 0, len(items)), ItemErrors{}
	for i, item := range items {
		if text, found := strings.CutPrefix(item, "fail "); found {
			return nil, &Whole{text}
		}
		spend(ctx, item)
		result, err := obey(item, len(items))
		switch {
		case err == errHanging:
			<-ctx.Done()
			return nil, ctx.Err()
		case err != nil && strings.HasPrefix(item, "slower "):
			return nil, err
		case err != nil:
			errs[i] = err
		case item == "short":
			continue
		case item == "long":
			results = append(results, item)
		}
		results = append(results, result)
	}
	if len(errs) > 0 {
		return results, errs
	}
	return results, nil
}

func init() {
	processHandlers["obey each"] = Each(obeyEach)
	processHandlers["obey batch"] = Batch(obeyBatch)
}

// obeyMore does what the obedient program does for these items alone.
func (p *obedient) obeyMore(call *wire.CallFrame, item json.RawMessage) *wire.ResultFrame {
	var text string
	must(json.Unmarshal(item, &text))
	do, arg, _ := strings.Cut(text, " ")
	arg, more, _ := strings.Cut(arg, " ")
	switch do {
	case "hold":
		p.acquire(more, duration(arg), wire.AcquireFrame{})
	case "let":
		p.say(wire.ReleaseFrame{Type: frames.TypeRelease, Scope: arg})
	case "tight":
		p.tight(duration(arg))
		note(more)
	case "long":
		results := make([]wire.ResultFrame, len(call.Items)+1)
		for i := range results {
			results[i].Value = item
		}
		p.say(wire.ResultsFrame{Type: frames.TypeResults, ID: call.ID, Results: results})
		p.serve("")
	case "size":
		return &wire.ResultFrame{Value: json.RawMessage(strconv.Itoa(len(call.Items)))}
	}
	if used := spentOn(text); !used.IsZero() {
		p.say(wire.CostFrame{Type: frames.TypeCost, Usage: used, Call: call.ID})
	}
	_, err := obey(text, 0)
	if err != nil && do == "slower" {
		p.say(wire.SlowDownFrame{Type: frames.TypeSlowDown, After: pause.Seconds()})
		p.say(wire.ResultsFrame{Type: frames.TypeResults, ID: call.ID})
		p.serve("")
	}
	if errors.Is(err, errLater) {
		seconds := pause.Seconds()
		return &wire.ResultFrame{RetryAfter: &seconds}
	}
	if err != nil {
		return &wire.ResultFrame{Error: &job.Error{Type: "Bad", Message: err.Error(), Stack: "here"}}
	}
	return &wire.ResultFrame{Value: item}
}

// tight holds a scope and lets it go, with a great many frames in between, all of which fit into a
// pipe. The first and the second are metrics.
func (p *obedient) tight(after time.Duration) {
	p.acquire("tight", after, wire.AcquireFrame{})
	metric := wire.MetricFrame{Type: frames.TypeMetric, Name: "flood", Kind: "counter", Value: 1}
	p.say(metric)
	flood, err := frames.Encode(metric)
	must(err)
	message, err := frames.Encode(wire.LogFrame{Type: frames.TypeLog, Level: "info", Message: "still here"})
	must(err)
	flood = append(flood, bytes.Repeat(message, 60<<10/len(message))...)
	release, err := frames.Encode(wire.ReleaseFrame{Type: frames.TypeRelease, Scope: "tight"})
	must(err)
	_, err = os.Stdout.Write(append(flood, release...))
	must(err)
}

func duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	must(err)
	return d
}

// python makes a handler of a Python program.
func (f *fixture) python(program string, args ...string) Handler {
	f.t.Helper()
	return Serve(append([]string{pytest.Find(f.t), program}, args...)...)
}

// here is the absolute path of a file of this directory.
func here(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	require.NoError(t, err)
	return path
}
