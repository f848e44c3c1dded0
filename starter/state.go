package starter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/base/backoff"
	"github.com/stint-run/stint/internal/temporal/devserver"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/local"
	sdkclient "go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
)

// One process at a time can use a state. A job that finds the state in use by another job, or by a `stint server`, has
// its own state below it from then on, and continues there.

// besideName is the directory of the states that jobs have of their own.
const besideName = "beside"

// ownState returns where a job's own state lies.
func ownState(state, name string) string { return filepath.Join(state, besideName, name) }

// stateOf returns the state that a job uses: its own, if it has one.
func stateOf(state, name string) string {
	own := ownState(state, name)
	if _, err := os.Stat(devserver.StateDir(own)); err == nil {
		return own
	}
	return state
}

const (
	// holderPatience is how long the process that holds a state may take until its server answers.
	holderPatience = 10 * time.Second
	holderPoll     = 20 * time.Millisecond
)

// inAState runs the job, in the state that it can use. The end of ctx ends it without a stop, that of stopCtx stops it.
func (r *running) inAState(ctx, stopCtx context.Context) (job.Report, error) {
	for {
		report, err := r.do(stopCtx, r.options(ctx))
		held, ok := errors.AsType[*devserver.HeldError](err)
		if !ok || stopCtx.Err() != nil {
			return report, err
		}
		state, err := r.beside(stopCtx, held)
		if err != nil {
			return report, err
		}
		r.state = state
		if r.log != nil {
			r.log.moveTo(state)
		}
	}
}

// beside handles a job that has found its state in use: it returns the state to use now, or an error if it can use
// none.
func (r *running) beside(ctx context.Context, held *devserver.HeldError) (state string, err error) {
	if r.state != r.p.path(r.o.state) || held.For == r.spec.Name {
		return "", held // another process runs this very job
	}
	holder, err := answering(ctx, held.Dir)
	if err != nil {
		return "", err
	}
	if holder == nil {
		return r.state, nil // it has ended meanwhile
	}
	unfinished, err := r.unfinishedIn(ctx, holder)
	if (errors.Is(err, errSilent) || err != nil && jobs.Unanswered(err)) && ctx.Err() == nil {
		unfinished, err = r.unanswered(held, holder.PID)
	}
	if err != nil || unfinished || holder.For == r.spec.Name {
		return "", errors.Join(held, err)
	}
	r.show.note("%s is in use by process %d: this job has a state of its own, %s", below(r.p.Dir, r.state), holder.PID, below(r.p.Dir, ownState(r.state, r.spec.Name)))
	return ownState(r.state, r.spec.Name), nil
}

// unanswered decides about a state whose server does not answer, as if its process were frozen (SIGSTOP): a job that
// has data there may have to be continued there, and cannot go on.
func (r *running) unanswered(held *devserver.HeldError, pid int) (unfinished bool, err error) {
	if _, err := os.Stat(local.StoreDir(r.state, r.spec.Name)); err == nil {
		return true, fmt.Errorf("process %d does not answer, and job %s has data in its state: let it go on (kill -CONT %[1]d) or end it, or name another --state", pid, r.spec.Name)
	}
	r.show.note("process %d, which uses %s, does not answer", pid, below(r.p.Dir, held.Dir))
	return false, nil
}

// answering waits until the server that holds a state directory answers, and returns nil if there is none any more.
func answering(ctx context.Context, dir string) (*devserver.HolderInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, holderPatience)
	defer cancel()
	for {
		holder, err := devserver.Holder(dir)
		if err != nil || holder == nil || holder.Address != "" {
			return holder, err
		}
		if !backoff.Wait(holderPoll, ctx.Done()) {
			return nil, &devserver.HeldError{Dir: dir, PID: holder.PID, Since: holder.Started}
		}
	}
}

// errSilent is about a process that holds a state and does not answer.
var errSilent = errors.New("it does not answer")

// unfinishedIn reports whether the server that holds the state has the job and the job has not completed: it continues
// there.
func (r *running) unfinishedIn(ctx context.Context, holder *devserver.HolderInfo) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, holderPatience)
	defer cancel()
	c, err := sdkclient.DialContext(ctx, sdkclient.Options{
		HostPort: holder.Address, Namespace: holder.Namespace, Logger: sdklog.NewStructuredLogger(r.logger),
	})
	if err != nil {
		return false, fmt.Errorf("asking the server at %s for the job: %w: %w", holder.Address, errSilent, err)
	}
	defer c.Close()
	listed, err := jobs.NewClient(c, nil).Get(r.spec.Name).Listed(ctx)
	if wraps[*jobs.NotFoundError](err) {
		return false, nil
	}
	return err == nil && listed.State != job.Completed, err
}

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
	if l.closed {
		return 0, os.ErrClosed
	}
	if l.file == nil && l.err == nil {
		l.open()
	}
	if l.err == nil && l.size+int64(len(text)) > maxLog {
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
