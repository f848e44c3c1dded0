package starter

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/base/codec"
	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/job"
)

// What the failures at the end of a job are grouped from, and how many groups are shown.
const (
	shownGroups = 10
	// heldGroups bounds the memory: failures of further groups are counted together.
	heldGroups = 1000
	// readFailures and readFailureBytes bound the time: the rest of the errors file is not read.
	readFailures     = 200_000
	readFailureBytes = 256 << 20
	// longestFailure is the longest line that is read; a longer one, with a long input, is left out.
	longestFailure = 4 << 20
	// shownMessage is how much of a message is shown, in bytes.
	shownMessage = 160
)

// failureGroup are failures of one type whose messages differ in numbers only.
type failureGroup struct {
	label   string // kind, and type if that says more
	message string // of the first one
	item    int64  // the first one
	count   int64
}

// failureGroups groups the failures of an errors file. Its zero value has no groups.
type failureGroups struct {
	groups  map[string]*failureGroup
	read    int64 // failures
	others  int64 // in groups that are not held
	partial bool  // the file has more
}

// failures decodes as much of a job.Failure as is shown.
var failures = codec.ForDecoding(reflect.TypeFor[job.FirstError]())

func (g *failureGroups) add(f job.FirstError) {
	if g.groups == nil {
		g.groups = map[string]*failureGroup{}
	}
	g.read++
	label, message := failureLabel(f), text.Cut(firstLine(f.Error.Message), shownMessage)
	key, number := withoutNumbers(message)
	key = label + "\x00" + key
	if limits.FailureKindOf(f.Kind).Said { // its status is its type
		key = number + key
	}
	group := g.groups[key]
	switch {
	case group != nil:
		group.count++
	case len(g.groups) == heldGroups:
		g.others++
	default:
		g.groups[key] = &failureGroup{label: label, message: message, item: f.Item, count: 1}
	}
}

// withoutNumbers returns a message with 0 in the place of each number, and the first number.
func withoutNumbers(message string) (plain, first string) {
	var b strings.Builder
	for message != "" {
		n := strings.IndexAny(message, digits)
		if n < 0 {
			break
		}
		b.WriteString(message[:n])
		b.WriteByte('0')
		rest := strings.TrimLeft(message[n:], digits)
		first = cmp.Or(first, message[n:len(message)-len(rest)])
		message = rest
	}
	return b.String() + message, first
}

const digits = "0123456789"

// failureLabel returns a failure's kind, and its type if that says more: "error ValueError: ". It is empty for an exit
// status, which begins the message.
func failureLabel(f job.FirstError) string {
	switch kind := limits.FailureKindOf(f.Kind); {
	case kind.Said:
		return ""
	case kind.Typed && shownType(f.Error.Type) != "":
		return f.Kind + " " + f.Error.Type + ": "
	}
	return f.Kind + ": "
}

// goTypes are error types of Go's standard library. Their names add nothing to the messages; the records keep them.
var goTypes = []string{
	"error", "Error", "PathError", "LinkError", "SyscallError", "Errno", "NumError", "SyntaxError", "UnmarshalTypeError", "OpError", "DNSError",
	"AddrError", "ParseError", "deadlineExceededError",
}

// shownType returns an error's type if a message should show it, as that of a Python exception; otherwise it is empty.
func shownType(name string) string {
	if slices.Contains(goTypes, name) {
		return ""
	}
	return name
}

// largest returns the groups with the most failures, and how many failures are in none of these.
func (g *failureGroups) largest(n int) (groups []*failureGroup, others int64) {
	groups = slices.SortedFunc(maps.Values(g.groups), func(a, b *failureGroup) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.item, b.item))
	})
	others = g.others
	for _, group := range groups[min(n, len(groups)):] {
		others += group.count
	}
	return groups[:min(n, len(groups))], others
}

// groupFailures reads an errors file of this machine. It returns nil if there is none that can be read.
func groupFailures(path string) *failureGroups {
	file, err := os.Open(path)
	if err != nil {
		return nil // in a bucket, or of another machine: the summary names it
	}
	defer file.Close()
	plain, err := outputs.Decode(path, file)
	if err != nil {
		return nil
	}
	g := &failureGroups{}
	lines := bufio.NewReaderSize(io.LimitReader(plain, readFailureBytes), 64<<10)
	for {
		line, err := boundedLine(lines, longestFailure)
		if len(line) > 0 {
			var f job.FirstError
			if failures.Unmarshal(line, &f) != nil {
				return nil // not ours, or being written
			}
			g.add(f)
		}
		if g.partial = g.read == readFailures; g.partial {
			return g
		}
		if err != nil {
			info, statErr := file.Stat()
			g.partial = statErr == nil && info.Size() > readFailureBytes
			return g
		}
	}
}

// boundedLine returns the next line, which is valid until the next call; a longer one is empty.
func boundedLine(r *bufio.Reader, most int) (line []byte, err error) {
	for long := false; ; {
		piece, err := r.ReadSlice('\n')
		if err == nil && line == nil && !long && len(piece) <= most {
			return piece, nil
		}
		if long = long || len(line)+len(piece) > most; long {
			line = nil
		} else {
			line = append(line, piece...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			if err != nil && !long && len(line) > 0 && line[len(line)-1] != '\n' {
				line = nil // cut off by a limit, or not yet whole
			}
			return line, err
		}
	}
}

// printFailures prints a job's failures by type and message, with one example each.
func printFailures(w io.Writer, r job.Report) {
	if r.Failed < 2 || r.Output == nil || r.Output.Errors == "" {
		return
	}
	g := groupFailures(r.Output.Errors)
	if g == nil || g.read < 2 {
		return
	}
	groups, others := g.largest(shownGroups)
	of := ""
	if g.partial {
		of = fmt.Sprintf(" of the first %s", text.Thousands(g.read))
	}
	fmt.Fprintf(w, "  failures%s by type and message, each with its first item:\n", of)
	width := len(text.Thousands(groups[0].count))
	for _, group := range groups {
		fmt.Fprintf(w, "    %*s × %s%s (item %s)\n", width, text.Thousands(group.count), group.label, group.message, text.Thousands(group.item))
	}
	if others > 0 {
		fmt.Fprintf(w, "    %*s × others\n", width, text.Thousands(others))
	}
}

// callTimes says how long the calls of the handler took: "p50 12ms, p95 40ms, max 1.34s"; or, of one call, "1.34s".
func callTimes(r job.Report) string {
	t := r.CallTimes
	if r.Calls == 1 {
		return shortTime(t.Longest(), 1000).String()
	}
	return fmt.Sprintf("p50 %s, p95 %s, max %s", shortTime(t.Percentile(50), 100), shortTime(t.Percentile(95), 100), shortTime(t.Longest(), 1000))
}

// shortTime rounds a duration to as many digits as most has zeros.
func shortTime(d, most time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= most {
		unit *= 10
	}
	return d.Round(unit)
}

// errorsWhere says where the error records are if a job has no errors file. Only a server can be asked for those of a
// failed job: `stint run` has none once it has ended.
func errorsWhere(r job.Report, server bool) string {
	switch {
	case r.State == job.Completed:
		return "not kept (--on-error drop)"
	case r.State == job.Failed && server:
		return "in the store: 'stint errors " + r.Job + "' prints them"
	}
	return "in the store: the file is written when the job has completed"
}

// printNoticed prints what reading the inputs has shown.
func printNoticed(w io.Writer, indent string, n job.Noticed) {
	if n.Blank > 0 {
		fmt.Fprintf(w, "%s%s passed over: of jsonl and csv these are no items\n", indent, text.Count(n.Blank, "blank line"))
	}
	for _, note := range n.Notes {
		fmt.Fprintf(w, "%s%s\n", indent, note)
	}
}

// summary describes in a few lines how a job has ended. Files below dir are named relative to it.
func summary(w io.Writer, dir string, r job.Report, took time.Duration, server bool) {
	speed := ""
	if fresh := cmp.Or(r.Redriven, r.Done()) - r.Resumed; fresh > 0 && took > 0 {
		speed = fmt.Sprintf(", %s items/s", text.Rate(float64(fresh)/took.Seconds()))
	}
	fmt.Fprintf(w, "%s: %s: %s ok, %s in %s%s\n", r.Job, r.State, text.Count(r.OK, "item"), counts(r), roundTime(took), speed)
	if r.OnlySums() {
		fmt.Fprintf(w, "  %s\n", onlySums)
	}
	count := func(n int64, noun, what string) {
		if n > 0 {
			fmt.Fprintf(w, "  %s %s\n", text.Count(n, noun), what)
		}
	}
	count(r.Dropped, "item", "without a result")
	count(r.Skipped, "item", "skipped, because the file was there")
	if r.ReusedFrom != "" {
		fmt.Fprintf(w, "  reused %s\n", describeReuse(r))
	}
	if r.Lines > 0 {
		fmt.Fprintf(w, "  %s\n", text.Count(r.Lines, "result line"))
	}
	count(int64(r.LeftOut), "file", "among the inputs left out, because stint wrote them")
	count(int64(r.OldFiles), "file", "among the inputs left out, because earlier runs have completed them"+noNewFiles(r))
	printNoticed(w, "  ", r.Noticed)
	count(r.Redriven, "failed item", "run again")
	count(r.Resumed, "item", "done by earlier runs")
	row := indentedRows(w)
	if r.CallTimes != "" {
		row(text.Count(r.Calls, "call"), "%s", callTimes(r))
	}
	printFirstError(row, r)
	printFailures(w, r)
	if r.State == job.Stopped {
		row.text("reason", r.Reason)
	}
	if !r.LostUsage.IsZero() {
		row("used for nothing", usedForNothing, r.LostUsage)
	}
	if r.Error != nil {
		row("error", "%s", r.Error.Message)
	}
	for _, h := range r.Hooks {
		if h.Error != nil || h.Skipped != "" {
			row("hook", "%s", describeHook(h))
		}
	}
	if n := len(r.LaterErrors) + r.LaterErrorsOmitted; n > 0 {
		row("later errors", "%d, the first: %s", n, firstLine(r.LaterErrors[0].Message))
	}
	printLeft(row, r)
	printMany(row, "ended by the stop", r.Forced, r.ForcedOmitted)
	if o := r.Output; o != nil {
		if o.Location != "" {
			row("output", "%s%s", below(dir, o.Location), splitFiles(*o))
		}
		row.text("dropped", below(dir, o.Dropped))
	}
	switch {
	case r.Output != nil && r.Output.Errors != "":
		row("errors", "%s", below(dir, r.Output.Errors))
	case r.Failed > 0:
		row("errors", "%s", errorsWhere(r, server))
	}
}

// splitFiles says into how many files the results are split; "" if they are not.
func splitFiles(o job.Output) string {
	if o.Split == "" {
		return ""
	}
	return fmt.Sprintf(", %s by %s", text.Count(o.Files, "file"), o.Split)
}

// noNewFiles says that a job had nothing to run, because no file is new.
func noNewFiles(r job.Report) string {
	if r.PlanDone && r.Planned == 0 {
		return ": nothing is new"
	}
	return ""
}
