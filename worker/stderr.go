package worker

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync"
	"time"
)

// stderrLog keeps the end of what a program writes to its standard error, and logs its lines, but
// no more than so many a second: a program that writes for ever must not fill the disk.
type stderrLog struct {
	log *slog.Logger

	mu      sync.Mutex
	tail    tail
	total   int64
	second  time.Time // that the counts are of
	logged  int
	skipped int

	stacks    []byte // what came since capture, at most maxStacks of it
	capturing bool
}

const (
	maxLogged  = 100  // lines a second
	maxLogLine = 4096 // bytes
	maxStacks  = 16 << 10
)

func newStderrLog(log *slog.Logger) *stderrLog { return &stderrLog{log: log} }

// follow reads to the end, which comes with the program's.
func (s *stderrLog) follow(r io.Reader) {
	lines := bufio.NewReaderSize(r, maxLogLine)
	for {
		line, err := lines.ReadSlice('\n') // parts of a longer line count as lines
		if len(line) > 0 {
			s.write(line)
		}
		if err != nil && err != bufio.ErrBufferFull {
			s.message(slog.LevelInfo, "")
			return
		}
	}
}

func (s *stderrLog) write(line []byte) {
	s.mu.Lock()
	_, _ = s.tail.Write(line) // it cannot fail
	s.total += int64(len(line))
	if s.capturing {
		s.stacks = append(s.stacks, line[:min(len(line), maxStacks-len(s.stacks))]...)
	}
	s.mu.Unlock()
	if text := bytes.TrimRight(line, "\r\n"); len(text) > 0 {
		s.message(slog.LevelInfo, string(bytes.ToValidUTF8(text, []byte("\uFFFD"))), "from", "stderr")
	}
}

// message logs text, if this second has room for it. Without text it tells only what was left out.
func (s *stderrLog) message(level slog.Level, text string, args ...any) {
	s.mu.Lock()
	now := time.Now()
	skipped := 0
	if now.Sub(s.second) >= time.Second || text == "" {
		skipped, s.skipped = s.skipped, 0
		s.second, s.logged = now, 0
	}
	over := s.logged >= maxLogged
	if over {
		s.skipped++
	} else {
		s.logged++
	}
	s.mu.Unlock()
	if skipped > 0 {
		s.log.Warn("the program writes too much: lines left out", "lines", skipped)
	}
	if text != "" && !over {
		s.log.Log(context.Background(), level, text, args...)
	}
}

// written is how many bytes there have been.
func (s *stderrLog) written() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// capture keeps what comes from here on. It returns how many bytes there have been.
func (s *stderrLog) capture() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capturing = true
	return s.total
}

// captured is what has come since, after the end of what came before.
func (s *stderrLog) captured() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := bytes.TrimSuffix([]byte(s.tail.text()), s.stacks)
	return string(bytes.ToValidUTF8(append(before, s.stacks...), []byte("\uFFFD")))
}

// text is the end of what was written.
func (s *stderrLog) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tail.text()
}
