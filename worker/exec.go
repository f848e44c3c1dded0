package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/frames"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/timers"
	"mvdan.cc/sh/v3/syntax"
)

// Exec makes a handler of a filter: a program that reads n lines on its standard input, to the
// end, and writes n lines on its standard output. One process serves one call; its output counts
// only once it has exited with status 0. With status 75 it asks for less work (see [SlowDown]): for as
// long as its last line on standard error says, "retry-after: SECONDS", or else for a second. The lines are the items' bytes (CSV records are JSON
// objects in the order of the header), and the answer is never parsed.
//
// The process has a group of its own, which is killed when the call is over, when its timer
// expires and when the worker ends, however that happens. Where the grace period of a stop, or of the
// worker's drain, is over it gets TERM before. Its environment is scrubbed (see Options.Env).
func Exec(argv ...string) Handler {
	return Handler{
		name: "exec " + strings.Join(argv, " "),
		check: func(o Options) error {
			if _, err := findProgram(argv, o.Dir); err != nil {
				return err
			}
			return o.checkCPUs()
		},
		open: func(s surroundings) (activities.Handler, service, error) {
			h, err := newExec(argv, s)
			if err != nil {
				return nil, nil, err
			}
			return h, h, nil
		},
	}
}

// SplitCommand splits a command as a shell would, quotes and backslashes included, without being
// one: what only a shell could carry out (pipes, variables, redirections, globs …) is an error.
func SplitCommand(command string) ([]string, error) {
	var argv []string
	parser := syntax.NewParser(syntax.Variant(syntax.LangPOSIX))
	for word, err := range parser.WordsSeq(strings.NewReader(command)) {
		if err != nil {
			return nil, fmt.Errorf("command %q: %w: it is run without a shell; for shell syntax say sh -c '…'", command, err)
		}
		arg, err := plainWord(command, word.Parts)
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

func plainWord(command string, parts []syntax.WordPart) (string, error) {
	var arg strings.Builder
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			if hasGlob(p.Value) {
				return "", shellOnly(command)
			}
			arg.WriteString(unescape(p.Value, ""))
		case *syntax.SglQuoted:
			arg.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, inner := range p.Parts {
				lit, ok := inner.(*syntax.Lit)
				if !ok {
					return "", shellOnly(command)
				}
				arg.WriteString(unescape(lit.Value, "$`\"\\"))
			}
		default:
			return "", shellOnly(command)
		}
	}
	return arg.String(), nil
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

func shellOnly(command string) error {
	return fmt.Errorf("command %q needs a shell, and is run without one: quote what is meant literally, or say sh -c '…'", command)
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

const (
	// callTarget is what calls of a filter aim at, so that a stop or a crash costs no more.
	callTarget = 5 * time.Second
	// A call holds its lines and its answer in memory.
	execItems = 100_000
	execBytes = 4 << 20
	// firstCall is the size of a call before the filter's speed is known.
	firstCall = 1000
	// answerLimit is the most that one call may answer, in bytes.
	answerLimit = 256 << 20
	// stderrKept is how much of the end of a process's standard error is kept, in bytes.
	stderrKept = 8 << 10
	// drainLimit is how long what a dead process has written may take to be read.
	drainLimit = 5 * time.Second
)

type execHandler struct {
	surroundings
	path string
	argv []string
	env  []string
	dir  string
	size activities.CallSize

	children *children
	buffers  sync.Pool // *[]byte, for lines that have to be put together
	pace     pace
}

func newExec(argv []string, s surroundings) (*execHandler, error) {
	o := s.options
	path, err := findProgram(argv, o.Dir)
	if err != nil {
		return nil, err
	}
	children, err := newChildren()
	if err != nil {
		return nil, err
	}
	return &execHandler{
		surroundings: s, path: path, argv: argv, env: o.childEnv(), dir: o.Dir, size: o.callSize(0, execBytes), children: children,
		pace:    execPace(),
		buffers: sync.Pool{New: func() any { return new([]byte) }},
	}, nil
}

func execPace() pace { return pace{target: callTarget, first: firstCall, most: execItems} }

// findProgram finds the program of a command, a relative path with a slash below dir.
func findProgram(argv []string, dir string) (string, error) {
	if len(argv) == 0 || argv[0] == "" {
		return "", errors.New("the command is empty")
	}
	name := argv[0]
	find := name
	if dir != "" && strings.Contains(name, "/") && !strings.HasPrefix(name, "/") {
		find = dir + "/" + name
	}
	path, err := exec.LookPath(find)
	switch {
	case errors.Is(err, exec.ErrDot), err == nil:
		return path, nil
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("command %q: there is no such program in $PATH", name)
	}
	return "", fmt.Errorf("command %q cannot be run: %w", name, err)
}

func (*execHandler) start(context.Context) error { return nil }

func (h *execHandler) close() { h.children.close() }

func (*execHandler) Traits() activities.Traits { return activities.Traits{Form: activities.Lines} }

// CallSize cuts calls so that each takes about callTarget.
func (h *execHandler) CallSize() activities.CallSize {
	if h.size.Items > 0 {
		return h.size
	}
	return activities.CallSize{Items: h.pace.items(), Bytes: h.size.Bytes}
}

// PacedItems tells what CallSize comes to.
func (h *execHandler) PacedItems(start, item float64) int {
	if h.size.Items > 0 {
		return h.size.Items
	}
	return h.pace.settled(start, item)
}

func (h *execHandler) Call(c *activities.Call) error {
	scratch := h.buffers.Get().(*[]byte)
	defer h.buffers.Put(scratch)
	began := time.Now()
	ctx := c.Begin()
	defer c.End()
	answer, err := h.run(ctx, c.Slot.Describe().Slot, c.Lines(scratch), c.Answer)
	if slowsDown(c, err) {
		return nil
	}
	if err != nil {
		return activities.CauseOf(ctx, err)
	}
	if err := c.Answer.Accept(answer, len(c.Items)); err != nil {
		return err
	}
	h.pace.learn(len(c.Items), time.Since(began))
	return nil
}

// run gives the lines to one process and reads its answer.
func (h *execHandler) run(ctx context.Context, slot int, lines []byte, answer *activities.Answer) (activities.Unaccepted, error) {
	var none activities.Unaccepted
	env := append(h.env[:len(h.env):len(h.env)], h.options.slotEnv(h.worker, slot, 0)...)
	cmd := &exec.Cmd{Path: h.path, Args: h.argv, Env: env, Dir: h.dir, SysProcAttr: childAttributes()}
	pipes, err := newPipes(cmd)
	if err != nil {
		return none, err
	}
	child, err := h.children.startOn(cmd, h.options.cpusOf(slot))
	pipes.closeChildEnds()
	if err != nil {
		pipes.close()
		return none, fmt.Errorf("starting %s: %w", h.argv[0], err)
	}
	gone := make(chan struct{})
	defer context.AfterFunc(ctx, func() { h.cut(child, gone, context.Cause(ctx)) })()

	var stderr tail
	var copying sync.WaitGroup
	copying.Go(func() {
		_, _ = pipes.stdin.Write(lines) // a filter need not read all: its answer is what counts
		_ = pipes.stdin.Close()
	})
	copying.Go(func() { _, _ = io.Copy(&stderr, pipes.stderr) }) // ends with the process or its drain limit
	exited := make(chan error, 1)
	go func() {
		err := child.wait()
		close(gone)
		pipes.hurry()
		exited <- err
	}()
	read, readErr := answer.ReadLines(pipes.stdout, len(lines), answerLimit)
	if readErr != nil {
		child.kill()
	}
	exitErr := <-exited
	copying.Wait()
	pipes.close()
	switch {
	case readErr != nil:
		return none, readErr
	case exitErr != nil && asksForLess(exitErr):
		return none, SlowDown(retryAfter(stderr.text()))
	case exitErr != nil:
		return none, crash(exitErr, stderr.text())
	}
	return read, nil
}

// cut ends the process of a call that must not go on: at once where its timer has expired, and with TERM
// first where all must end.
func (h *execHandler) cut(c *child, gone <-chan struct{}, cause error) {
	var expired *timers.ExpiredError
	if errors.As(cause, &expired) {
		c.kill()
		return
	}
	c.endSoftly(gone, h.options.termLimit(cause))
}

// crash tells how a process ended, with the last it had to say.
func crash(err error, stderr string) *activities.Fault {
	message := err.Error()
	if last := lastLine(stderr); last != "" {
		message += ": " + last
	}
	kind := "Exit"
	var exit *exec.ExitError
	if errors.As(err, &exit) && signaled(exit) {
		kind = "Signal"
	}
	return &activities.Fault{Kind: job.KindCrash, Err: job.Error{Type: kind, Message: message, Stack: stderr}}
}

const (
	// exitSlowDown is the exit status by which a filter asks for less: EX_TEMPFAIL of sysexits.h.
	exitSlowDown = 75
	// slowDownDefault is for how long, where its last line on standard error does not say.
	slowDownDefault = time.Second
)

func asksForLess(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == exitSlowDown
}

// retryAfter finds "retry-after: SECONDS" in the last line that a filter has written.
func retryAfter(stderr string) time.Duration {
	name, value, _ := strings.Cut(lastLine(stderr), ":")
	seconds, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if !strings.EqualFold(strings.TrimSpace(name), "retry-after") || err != nil || !(seconds > 0) {
		return slowDownDefault
	}
	return frames.Seconds(seconds)
}

func signaled(exit *exec.ExitError) bool {
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled()
}

func lastLine(s string) string {
	s = strings.TrimRight(s, "\n\r ")
	return strings.TrimSpace(s[strings.LastIndexByte(s, '\n')+1:])
}

// tail keeps the end of what is written to it.
type tail struct{ buf []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if len(t.buf) > 2*stderrKept {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-stderrKept:]...)
	}
	return len(p), nil
}

func (t *tail) text() string {
	b := t.buf[max(0, len(t.buf)-stderrKept):]
	return string(bytes.ToValidUTF8(b, []byte("\uFFFD")))
}
