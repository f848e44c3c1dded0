package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/command"
	"github.com/stint-run/stint/job"
)

// What becomes of a command's standard output: see [CommandOptions].
const (
	resultLines  = "lines"
	resultJSON   = "json"
	resultRecord = "record"
	resultNone   = "none"
)

// CommandOptions say which command is run for each item, and what its result is.
type CommandOptions struct {
	// Words are the command, split already. Placeholders in them are replaced by values of the item: {} is the item (a
	// string in JSON without its quotes, other JSON without white space), {.} {/} {//} {/.} are parts of a file's name, {#}
	// and {%} the numbers of the item and of the slot, {1} and {-1} columns, {name} and {a.b} fields of a JSON or CSV item.
	// {{ and }} are braces. A value stays inside its word, whatever it holds. Words without a placeholder get the item as
	// one more word, unless they have it on standard input.
	Words []string
	// Script, in place of Words, is run by a shell: sh unless Shell names another one, dash or bash. A placeholder
	// becomes a reference to a variable, quoted as its place asks for. A script without a placeholder has the item as $1.
	Script string
	Shell  string
	// Delimiter separates the columns of a line of text. Default: it is one column.
	Delimiter string
	// Columns makes {} of an item that is a list in JSON its values, with a space between them.
	Columns bool
	// Stdin gives the item to the command's standard input, as a line that an [Exec] handler would get; it is empty
	// otherwise.
	Stdin bool
	// Result is what becomes of the standard output: "lines" (default), each of which is a result as it is; "json", all of
	// it as one JSON string; "record", an object with item, stdout, stderr, exit and seconds; "none".
	Result string
	// Tag puts the item and a tab before each of the lines.
	Tag bool
	// OKExits are the exit statuses that are no failure. Default: 0 only.
	OKExits []int
	// SkipIfExists is the name of the file that the command makes, with placeholders. If the file is there already, the
	// command is not run, and the item has an empty result. If the command has the placeholder {out}, this stands for
	// another name in the same directory, and the file gets its name once the command has succeeded.
	SkipIfExists string
	// JobLog is a file to which a line is added for each command that has ended, with the columns of GNU parallel's
	// --joblog. Default: none.
	JobLog string
}

// Command makes a handler that runs a command for each item, with placeholders in its words. Its result is what it
// prints on standard output: of a job that flattens results (see [job.Spec].Flatten) any number of lines, in any other job one
// line. Another exit status than 0 fails the item with kind exit, a signal with kind crash, and both with the last lines of
// standard error.
//
// The command has no terminal. Its process group ends with it, when its timer expires, and when the worker ends. Its
// environment is scrubbed (see Options.Env).
func Command(o CommandOptions) Handler {
	name := "each " + strings.Join(o.Words, " ")
	if o.Script != "" {
		name = "shell " + o.Script
	}
	return Handler{
		name: name, argv: o.Words,
		check: func(w Options) error {
			if _, err := o.compile(w); err != nil {
				return err
			}
			return w.checkCPUs()
		},
		open: func(s dependencies) (calls.Handler, service, error) {
			compiled, err := o.compile(s.options)
			if err != nil {
				return nil, nil, err
			}
			h := &commandHandler{o: o, compiledCommand: compiled}
			if h.processes, err = newProcesses(s); err != nil {
				return nil, nil, err
			}
			if o.JobLog != "" {
				if h.log, err = openJobLog(o.JobLog); err != nil {
					h.processes.Close()
					return nil, nil, err
				}
			}
			h.paced = paced{s.options.callSize(0, commandBytes), calls.Pace{Target: commandTarget, First: 1, Most: commandItems}}
			return h, h, nil
		},
	}
}

const (
	// Calls are small, so that a stop waits for few commands, and results are recorded soon.
	commandTarget = 200 * time.Millisecond
	commandItems  = 1024
	commandBytes  = 1 << 20
)

// compiledCommand is what the options of a command come to.
type compiledCommand struct {
	template *command.Template
	path     string            // of its program; "": that differs from item to item
	file     *command.Template // the name of the file that it makes; nil: it makes none
}

// compile checks the options.
func (o *CommandOptions) compile(w Options) (c compiledCommand, err error) {
	if c.template, err = command.New(o.Words, o.Script, o.Shell, o.Stdin); err != nil {
		return c, fmt.Errorf("command: %w", err)
	}
	if results := []string{"", resultLines, resultJSON, resultRecord, resultNone}; !slices.Contains(results, o.Result) {
		return c, fmt.Errorf("result %q: use %s", o.Result, strings.Join(results[1:], ", "))
	}
	if o.Tag && o.Result != "" && o.Result != resultLines {
		return c, fmt.Errorf("a tag is for lines, and the result is %s", o.Result)
	}
	if o.SkipIfExists != "" {
		if c.file, err = command.ParseName(o.SkipIfExists); err != nil {
			return c, fmt.Errorf("skip if exists: %w", err)
		}
	}
	if program := c.template.Program(); program != "" {
		if c.path, err = w.runnable([]string{program}); err != nil {
			return c, err
		}
	}
	return c, nil
}

type commandHandler struct {
	processes
	paced
	compiledCommand
	o   CommandOptions
	log *jobLog // nil: there is none
}

// Close implements service.
func (h *commandHandler) Close() {
	h.processes.Close()
	if h.log != nil {
		h.log.close()
	}
}

func (*commandHandler) Traits() calls.Traits { return calls.Traits{Form: calls.Lines, OneByOne: true} }

func (h *commandHandler) Call(c *calls.Call) error {
	defer c.End()
	began := time.Now()
	for i := range c.Items {
		if i > 0 && c.Ending() {
			return nil
		}
		if goOn, err := h.item(c, i); !goOn || err != nil {
			return err
		}
		if c.Answer.Full() && i+1 < len(c.Items) {
			c.Keep = true
			return calls.FullFault()
		}
	}
	h.pace.Learn(len(c.Items), time.Since(began))
	return nil
}

// item runs the command of an item and adds its outcome. It returns false if the call ends before.
func (h *commandHandler) item(c *calls.Call, i int) (goOn bool, err error) {
	run, err := h.prepare(c, i)
	switch {
	case err != nil:
		c.Answer.Fail(calls.InvalidFault(err), 1)
		return true, nil
	case run.file != nil && run.file.exists():
		c.Answer.Skip(c.Flat)
		return true, nil
	}
	at := c.Place.(*callPlace).slot
	ctx := c.Begin()
	run.began = time.Now()
	end, err := h.runWords(ctx, c, run)
	for isUnbegun(err) && !errors.Is(err, syscall.E2BIG) {
		c.End() // a wait is none of its time
		if !at.awaitResources(c, err) {
			c.Keep = true
			return false, err
		}
		ctx, run.began = c.Begin(), time.Now()
		end, err = h.runWords(ctx, c, run)
	}
	at.begun()
	if h.log != nil {
		h.log.add(run, end, err)
	}
	if err == nil {
		err = h.outcome(c, run, end)
	} else if errors.Is(err, syscall.E2BIG) {
		err = calls.InvalidFault(errors.New("the command is longer than the system takes: give the item on standard input (--stdin item)"))
	}
	if err == nil {
		return true, nil
	}
	run.file.discard()
	if slowsDown(c, err) {
		return false, nil
	}
	fault := calls.FaultOf(calls.CauseOf(ctx, err))
	if c.Ended() {
		return false, nil
	}
	failed := c.Failed(fault, c.Tried(i)+1, c.TriesOf(fault))
	if failed.Later && fault.After == 0 && fault.Kind == job.KindExpired {
		c.Expired()
	}
	c.Add(i, failed)
	return true, nil
}

// prepare makes the command of an item.
func (h *commandHandler) prepare(c *calls.Call, i int) (*commandRun, error) {
	item := &command.Item{
		Data: c.Items[i].Data, JSON: !c.Text, Delimiter: h.o.Delimiter, Columns: h.o.Columns,
		Number: c.Items[i].Ordinal + 1, Slot: c.Place.Describe().Slot + 1,
	}
	run := &commandRun{h: h, item: item}
	var err error
	run.words, _, err = h.template.WordsAndFile(item, h.file, func(name string) string {
		run.file = newMadeFile(h.dir, name, h.template.NamesOut())
		return run.file.out
	})
	return run, err
}

// runWords runs a command. A program that there is not is the item's failure if it is the item's own.
func (h *commandHandler) runWords(ctx context.Context, c *calls.Call, run *commandRun) (processEnd, error) {
	path := h.path
	if path == "" {
		var err error
		if path, err = findProgram(run.words[:1], h.dir); err != nil {
			return processEnd{}, calls.Faultf(job.KindExit, "Exit", "exit 127: %v", err)
		}
	}
	run.out = run.out[:0]
	return h.processes.run(ctx, c, path, run.words, run)
}

// outcome adds the outcome of a command that has ended, or returns why it has failed.
func (h *commandHandler) outcome(c *calls.Call, run *commandRun, end processEnd) error {
	status := end.exit()
	switch {
	case end.status != nil && status <= 0:
		return endFault(end.status, end.stderr)
	case slices.Contains(h.o.OKExits, status), status == 0 && len(h.o.OKExits) == 0:
	case status == exitSlowDown:
		return SlowDown(retryAfter(end.stderr))
	case status == 0:
		return calls.Faultf(job.KindExit, "Exit", "exit 0, which is none of the statuses that are no failure")
	default:
		return endFault(end.status, end.stderr)
	}
	result, err := h.result(c, run, end)
	if err != nil {
		return err
	}
	if err := run.file.keep(); err != nil { // last: an item that fails leaves no file
		return calls.Faultf(job.KindExit, "Exit", "%v", err)
	}
	if c.Flat {
		c.Answer.Lines(result)
	} else {
		c.Answer.Line(result)
	}
	return nil
}

// result returns what becomes of the output of a command that has succeeded: of a call that is Flat lines, of any other
// one line without its end; or why it can be no result.
func (h *commandHandler) result(c *calls.Call, run *commandRun, end processEnd) ([]byte, error) {
	switch h.o.Result {
	case resultNone:
		return nil, nil
	case resultJSON:
		return jsonResult(c, string(run.out))
	case resultRecord:
		shown := json.RawMessage(run.item.Data)
		if c.Text {
			shown, _ = text.JSON(string(run.item.Data)) // a string is always JSON
		}
		return jsonResult(c, commandRecord{
			Item: shown, Stdout: string(run.out), Stderr: end.stderr, Exit: end.exit(), Seconds: time.Since(run.began).Seconds(),
		})
	}
	lines := run.out
	if n := len(lines); n > 0 && lines[n-1] != '\n' {
		lines = append(lines, '\n')
	}
	if h.o.Tag {
		shown, err := run.item.Text()
		if err != nil {
			return nil, calls.InvalidFault(err)
		}
		lines = tagged(shown, lines)
	}
	return linesResult(c, lines)
}

// commandRecord is a result of resultRecord.
type commandRecord struct {
	Item    json.RawMessage `json:"item"`
	Stdout  string          `json:"stdout"`
	Stderr  string          `json:"stderr"`
	Exit    int             `json:"exit"`
	Seconds float64         `json:"seconds"`
}

// linesResult returns lines as a result. Where that is one line, none is an empty one.
func linesResult(c *calls.Call, lines []byte) ([]byte, error) {
	if c.Flat {
		return lines, nil
	}
	if n := bytes.Count(lines, []byte{'\n'}); n > 1 {
		return nil, calls.Faultf(job.KindInvalid, "Invalid",
			"the command has printed %d lines, and the job takes one result for each item: start it with --flatten, or give the worker --result json", n)
	}
	return bytes.TrimSuffix(lines, []byte{'\n'}), nil
}

// jsonResult returns a value as a result.
func jsonResult(c *calls.Call, value any) ([]byte, error) {
	switch v := value.(type) {
	case string:
		if !utf8.ValidString(v) {
			return nil, notText()
		}
	case commandRecord:
		if !utf8.ValidString(v.Stdout) {
			return nil, notText()
		}
	}
	line, err := text.JSON(value)
	switch {
	case err != nil:
		return nil, err
	case len(line) > calls.MaxResult:
		return nil, calls.TooLargeFault(len(line))
	case c.Flat:
		line = append(line, '\n')
	}
	return line, nil
}

func notText() error {
	return calls.Faultf(job.KindInvalid, "Invalid", "the command's output is not UTF-8, and cannot be a JSON string: use --result lines")
}

// tagged puts the item and a tab before each line.
func tagged(item string, lines []byte) (all []byte) {
	for line := range bytes.Lines(lines) {
		all = append(append(append(all, item...), '\t'), line...)
	}
	return all
}

// commandRun is the dialogue with the process of one item.
type commandRun struct {
	h     *commandHandler
	item  *command.Item
	words []string
	file  *madeFile // nil: it makes none
	began time.Time
	out   []byte
}

// Feed implements dialogue.
func (r *commandRun) Feed(_ context.Context, in io.Writer) {
	if r.h.o.Stdin {
		_, _ = in.Write(append(slices.Clip(r.item.Data), '\n')) // a command need not read it
	}
}

// Take implements dialogue.
func (r *commandRun) Take(out io.Reader) error {
	for {
		if len(r.out) == cap(r.out) {
			r.out = slices.Grow(r.out, 4<<10)
		}
		n, err := out.Read(r.out[len(r.out):cap(r.out)])
		r.out = r.out[:len(r.out)+n]
		switch {
		case len(r.out) > calls.MaxResult:
			return calls.TooLargeFault(len(r.out))
		case err == io.EOF || errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case err != nil:
			return fmt.Errorf("reading the output: %w", err)
		}
	}
}
