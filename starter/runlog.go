package starter

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

const (
	logName = "stint.log"
	// maxLog is the size in bytes at which a new log begins. The previous one is kept as stint.log.1.
	maxLog = 10 << 20
)

// runLog is the file in the state directory that `run` logs to. It opens the file with the first
// write: a job that is refused leaves no trace. It is safe for concurrent use.
type runLog struct {
	state string

	mu     sync.Mutex
	file   *os.File // nil: not open
	size   int64
	err    error // why it could not be opened
	closed bool
}

func (l *runLog) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return 0, os.ErrClosed
	case l.err != nil:
		return 0, l.err
	case l.file == nil:
		l.open()
	case l.size+int64(len(text)) > maxLog:
		l.rotate()
	}
	if l.err != nil {
		return 0, l.err
	}
	n, err := l.file.Write(text)
	l.size += int64(n)
	return n, err
}

func (l *runLog) path() string { return filepath.Join(l.state, logName) }

// moveTo moves the log to another state, unless something has been logged already.
func (l *runLog) moveTo(state string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil && l.err == nil {
		l.state = state
	}
}

func (l *runLog) open() {
	if l.err = os.MkdirAll(l.state, 0o700); l.err != nil {
		return
	}
	if info, err := os.Stat(l.path()); err == nil && !info.Mode().IsRegular() {
		l.err = fmt.Errorf("%s is no ordinary file: move it away", l.path())
		return
	}
	l.file, l.err = os.OpenFile(l.path(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if l.err != nil {
		return
	}
	if info, err := l.file.Stat(); err == nil {
		l.size = info.Size()
	}
	if l.size >= maxLog {
		l.rotate()
	}
}

// rotate begins a new log. If the old one cannot be renamed, it is emptied.
func (l *runLog) rotate() {
	l.size = 0
	if err := os.Rename(l.path(), l.path()+".1"); err != nil {
		_ = l.file.Truncate(0) // it is only a log
		return
	}
	_ = l.file.Close() // likewise
	l.file, l.err = os.OpenFile(l.path(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

// close closes the file, and returns why it could not be opened.
func (l *runLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.err != nil {
		return fmt.Errorf("opening the log: %w", l.err)
	}
	if l.file != nil {
		_ = l.file.Close() // it is only a log
	}
	return nil
}
