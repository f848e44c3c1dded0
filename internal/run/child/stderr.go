package child

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/base/text"
)

// StderrLog keeps the end of what a program writes to its standard error, and logs its lines and its
// messages, but no more than so many lines and bytes a second: a program that writes for ever must not
// fill the disk.
type StderrLog struct {
	log *slog.Logger

	mu      sync.Mutex
	tail    Tail
	total   int64
	second  time.Time // that the counts are of
	logged  int       // lines
	bytes   int       // of these lines
	skipped int

	stacks    []byte // what came since capture, at most maxStacks of it
	capturing bool
}

const (
	maxLogged      = 100       // lines a second
	maxLoggedBytes = 256 << 10 // a second; the line that passes it is the last
	maxLogLine     = 4096      // bytes of a line, a message, or the value of a field
	maxLogFields   = 32        // of a message
	maxLogMessage  = 16 << 10  // bytes of a message and its fields together
	maxLogName     = 100       // bytes of a field's name

	// MaxStacks is how much of a program's stacks is kept, in bytes.
	MaxStacks = 16 << 10
	// StderrKept is how much of the end of a process's standard error is kept, in bytes.
	StderrKept = 8 << 10
)

// NewStderrLog returns a StderrLog that logs to log.
func NewStderrLog(log *slog.Logger) *StderrLog { return &StderrLog{log: log} }

// Follow reads to the end, which comes with the program's.
func (s *StderrLog) Follow(r io.Reader) {
	lines := bufio.NewReaderSize(r, maxLogLine)
	for {
		line, err := lines.ReadSlice('\n') // parts of a longer line count as lines
		if len(line) > 0 {
			s.write(line)
		}
		if err != nil && err != bufio.ErrBufferFull {
			s.Message(slog.LevelInfo, "")
			return
		}
	}
}

func (s *StderrLog) write(line []byte) {
	s.mu.Lock()
	_, _ = s.tail.Write(line) // it cannot fail
	s.total += int64(len(line))
	if s.capturing {
		s.stacks = append(s.stacks, line[:min(len(line), MaxStacks-len(s.stacks))]...)
	}
	s.mu.Unlock()
	if line := bytes.TrimRight(line, "\r\n"); len(line) > 0 {
		s.Message(slog.LevelInfo, string(bytes.ToValidUTF8(line, []byte("\uFFFD"))), "from", "stderr")
	}
}

// Fields returns the fields of a program's message, bounded in number and size, in the order of their names.
func Fields(given map[string]any) []any {
	args := make([]any, 0, 2*min(len(given), maxLogFields)+2)
	room := maxLogMessage
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value := shorten(given[name])
		size := len(name) + sizeOf(value)
		if len(args) >= 2*maxLogFields || size > room {
			return append(args, "fields_left_out", len(given)-len(args)/2)
		}
		room -= size
		args = append(args, text.Cut(name, maxLogName), value)
	}
	return args
}

// shorten bounds a value that comes from JSON. What has parts becomes a string.
func shorten(v any) any {
	switch v := v.(type) {
	case nil, bool, float64:
		return v
	case string:
		return text.Cut(v, maxLogLine)
	}
	encoded, _ := json.Marshal(v) // which it comes from
	return text.Cut(string(encoded), maxLogLine)
}

// sizeOf is about how many bytes a value takes in a log.
func sizeOf(v any) int {
	if s, ok := v.(string); ok {
		return len(s)
	}
	return 8
}

// Message logs a message, cut if it is too long, if this second has room for it. Without a message it
// reports only how many were left out. The args must be bounded already.
func (s *StderrLog) Message(level slog.Level, message string, args ...any) {
	message = text.Cut(message, maxLogLine)
	size := len(message)
	for _, arg := range args {
		size += sizeOf(arg)
	}
	s.mu.Lock()
	now := time.Now()
	skipped := 0
	if now.Sub(s.second) >= time.Second || message == "" {
		skipped, s.skipped = s.skipped, 0
		s.second, s.logged, s.bytes = now, 0, 0
	}
	over := s.logged >= maxLogged || s.bytes >= maxLoggedBytes
	if over {
		s.skipped++
	} else {
		s.logged++
		s.bytes += size
	}
	s.mu.Unlock()
	if skipped > 0 {
		s.log.Warn("the program writes too much: lines left out", "lines", skipped)
	}
	if message != "" && !over {
		s.log.Log(context.Background(), level, message, args...)
	}
}

// Written returns how many bytes there have been.
func (s *StderrLog) Written() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// Capture keeps what comes from here on. It returns how many bytes there have been.
func (s *StderrLog) Capture() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capturing = true
	return s.total
}

// Captured returns what has come since, after the end of what came before.
func (s *StderrLog) Captured() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := bytes.TrimSuffix([]byte(s.tail.Text()), s.stacks)
	return string(bytes.ToValidUTF8(append(before, s.stacks...), []byte("\uFFFD")))
}

// Text returns the end of what was written.
func (s *StderrLog) Text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tail.Text()
}

// Tail keeps the last StderrKept bytes of what is written to it.
type Tail struct{ buf []byte }

// Write implements io.Writer; it never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if len(t.buf) > 2*StderrKept {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-StderrKept:]...)
	}
	return len(p), nil
}

// Text returns what is kept, as valid UTF-8.
func (t *Tail) Text() string {
	b := t.buf[max(0, len(t.buf)-StderrKept):]
	return string(bytes.ToValidUTF8(b, []byte("\uFFFD")))
}
