package worker

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stint-run/stint/internal/run/command"
)

// madeFile is the file that the command of an item makes. A nil one is none.
type madeFile struct {
	path string // of the file
	tmp  string // where the command writes it; "": it writes to path itself
	out  string // tmp as the command gets it
}

// newMadeFile returns a file by its name, which is relative to dir, the command's directory. With under, the command
// writes it under another name, which ends like its own: many programs look at that.
func newMadeFile(dir, name string, under bool) *madeFile {
	f := &madeFile{path: name}
	if under {
		f.out = filepath.Join(filepath.Dir(name), ".stint-"+strings.ToLower(rand.Text()[:10])+"-"+filepath.Base(name))
		f.tmp = f.out
	}
	if !filepath.IsAbs(name) && dir != "" {
		f.path = filepath.Join(dir, name)
		if under {
			f.tmp = filepath.Join(dir, f.out)
		}
	}
	return f
}

// exists reports whether the file is there.
func (f *madeFile) exists() bool {
	_, err := os.Stat(f.path)
	return err == nil
}

// keep gives the file its name.
func (f *madeFile) keep() error {
	if f == nil || f.tmp == "" {
		return nil
	}
	err := os.Rename(f.tmp, f.path)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("exit 0, and the command has not written %s, its {out}", f.out)
	}
	return err
}

// discard removes what the command has written before it failed.
func (f *madeFile) discard() {
	if f != nil && f.tmp != "" {
		_ = os.Remove(f.tmp) // it need not have got so far
	}
}

// jobLog is a file with a line for each command that has ended.
type jobLog struct {
	mu   sync.Mutex
	file *os.File
}

// jobLogHead is the first line, as GNU parallel writes it.
const jobLogHead = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"

func openJobLog(name string) (*jobLog, error) {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		return nil, fmt.Errorf("job log: %w", err)
	}
	l := &jobLog{file: file}
	if info, err := file.Stat(); err == nil && info.Size() == 0 {
		if _, err := file.WriteString(jobLogHead); err != nil {
			_ = file.Close() // the first error counts
			return nil, fmt.Errorf("job log: %w", err)
		}
	}
	return l, nil
}

// add adds the line of a command. A line that cannot be written is left out: the job itself counts what has happened.
func (l *jobLog) add(run *commandRun, end processEnd, err error) {
	sent, signal, status := 0, 0, end.exit()
	if run.h.o.Stdin {
		sent = len(run.item.Data) + 1
	}
	if exit, ok := errors.AsType[*exec.ExitError](end.status); ok {
		if state, ok := exit.Sys().(syscall.WaitStatus); ok && state.Signaled() {
			status, signal = 0, int(state.Signal())
		}
	}
	if err != nil && status == 0 && signal == 0 {
		status = -1
	}
	line := fmt.Sprintf("%d\t:\t%.3f\t%.3f\t%d\t%d\t%d\t%d\t%s\n", run.item.Number, float64(run.began.UnixMilli())/1000,
		time.Since(run.began).Seconds(), sent, len(run.out), status, signal, strings.ReplaceAll(command.Line(run.words), "\n", `\n`))
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.file.WriteString(line)
}

func (l *jobLog) close() { _ = l.file.Close() } // only what is in it already counts
