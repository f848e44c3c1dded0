package starter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/job"
)

// A command that waits for a server, a worker or a job ends at the first request to end, and when its --timeout is
// over. Commands that serve (run, worker, server, ui, feed serve, codec-server, watch --metrics) deal with signals themselves.

// interruptedError is the cause with which a request to end ends a command's context.
type interruptedError struct{ signal os.Signal }

func (e *interruptedError) Error() string { return fmt.Sprintf("interrupted (%v)", e.signal) }

// endLimit is how long a command may take to end after a request to end.
const endLimit = 3 * time.Second

// untilSignal returns a context that a request to end cancels, and how to end the waiting for one. A command that does
// not end then is ended.
func (p *Program) untilSignal(ctx context.Context) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended, over := context.WithCancel(context.Background())
	trap.Watched("waiting for signals", p.defect, func() {
		select {
		case s := <-p.Signals:
			cancel(&interruptedError{s})
		case <-ended.Done():
			return
		}
		select {
		case <-ended.Done():
		case <-time.After(endLimit):
			p.Exit(ExitInterrupted)
		}
	})
	return ctx, func() { over(); cancel(nil) }
}

// interrupted reports whether a request to end has ended the context.
func interrupted(ctx context.Context) bool {
	return wraps[*interruptedError](context.Cause(ctx))
}

// unlessInterrupted returns the error of a command that was run with this context: after a request to end one with its
// exit code. What the command says about that itself is kept; other errors only say that its context has ended.
func unlessInterrupted(ctx context.Context, err error) error {
	if err == nil || !interrupted(ctx) {
		return err
	}
	if coded, ok := errors.AsType[*codeError](err); ok && coded.code == ExitInterrupted {
		return err
	}
	return &codeError{code: ExitInterrupted}
}

// earlyEnd is how much earlier than the command's own limit that of the server may be over, which gets it with each
// request.
const earlyEnd = 100 * time.Millisecond

// awaitEnd waits for the end of a context that is about to be over.
func awaitEnd(ctx context.Context) {
	if deadline, has := ctx.Deadline(); has && time.Until(deadline) < earlyEnd {
		<-ctx.Done()
	}
}

// unlessOver is unlessInterrupted, also for the end of --timeout. An error that says so itself is kept; any other is
// that of a request to the server that had no answer by then.
func unlessOver(ctx context.Context, err error) error {
	err = unlessInterrupted(ctx, err)
	if err != nil {
		awaitEnd(ctx)
	}
	limit, over := errors.AsType[*limitError](context.Cause(ctx))
	if _, coded := errors.AsType[*codeError](err); err == nil || !over || coded {
		return err
	}
	return &codeError{code: ExitTimeout, err: fmt.Errorf("the Temporal server has not answered within --timeout %v: %w", limit.timeout, err)}
}

// waitLimit is the flag --timeout of a command that waits.
type waitLimit struct {
	timeout time.Duration
	until   time.Time // when it is over; zero: it counts anew for each context
}

// begun returns the limit as it counts from now on, over all contexts that are made with it.
func (w waitLimit) begun() waitLimit {
	if w.timeout > 0 {
		w.until = time.Now().Add(w.timeout)
	}
	return w
}

// and returns the limit with more time.
func (w waitLimit) and(more time.Duration) waitLimit {
	w.timeout += more
	if !w.until.IsZero() {
		w.until = w.until.Add(more)
	}
	return w
}

// limitError is the cause with which --timeout ends a context.
type limitError struct{ timeout time.Duration }

func (e *limitError) Error() string { return fmt.Sprintf("not within --timeout %v", e.timeout) }

// Timeout returns true.
func (e *limitError) Timeout() bool { return true }

// addFlags adds the flag. Its default is the present value; 0 is no limit.
func (w *waitLimit) addFlags(fs *pflag.FlagSet, usage string) {
	fs.DurationVar(&w.timeout, "timeout", w.timeout, usage)
}

// check refuses limits that are none. A command that waits only with another flag names it, and whether it is set.
func (w *waitLimit) check(fs *pflag.FlagSet, needs string, has bool) error {
	switch {
	case !fs.Changed("timeout"):
		return nil
	case w.timeout <= 0:
		return usageError("--timeout %v: use a duration above 0", w.timeout)
	case needs != "" && !has:
		return usageError("--timeout says how long to wait: give %s, too", needs)
	}
	return nil
}

// limit returns a context that ends when the limit is over.
func (w waitLimit) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if w.timeout <= 0 {
		return context.WithCancel(ctx)
	}
	until := w.until
	if until.IsZero() {
		until = time.Now().Add(w.timeout)
	}
	return context.WithDeadlineCause(ctx, until, &limitError{w.timeout})
}

// isLimit reports whether --timeout has ended the context of a request that has failed.
func isLimit(ctx context.Context) bool {
	awaitEnd(ctx)
	return wraps[*limitError](context.Cause(ctx))
}

// exceeded is the error of a command whose limit is over: what has not come, and who does not answer, if that is known.
func (w *waitLimit) exceeded(what, who string) error {
	if who != "" {
		what += "\n" + who
	}
	return &codeError{code: ExitTimeout, err: errors.New(what)}
}

// isLate reports whether an error says that something has not been answered in time.
func isLate(err error) bool {
	var late interface{ Timeout() bool }
	return errors.As(err, &late) && late.Timeout()
}

// onceMore is the time within which further signals count as the first one: wrappers such as `timeout` send two.
const onceMore = time.Second

// secondSignal waits for a second request to end, after one that has come just now. It returns false once ended is
// closed.
func (p *Program) secondSignal(ended <-chan struct{}) bool {
	first := time.Now()
	for {
		select {
		case <-ended:
			return false
		case <-p.Signals:
			if time.Since(first) >= onceMore {
				return true
			}
		}
	}
}

// draining returns a context that the first request to end cancels, after saying what happens then: what is a format
// for the signal and the limit. The second one ends the program at once. end ends the waiting for both.
func (p *Program) draining(ctx context.Context, what string, limit time.Duration) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	trap.Watched("waiting for signals", p.defect, func() {
		select {
		case <-ended:
			return
		case s := <-p.Signals:
			fmt.Fprintf(p.Stderr, what+"; once more to end at once\n", s, limit)
			cancel()
		}
		if p.secondSignal(ended) {
			p.Exit(ExitInterrupted)
		}
	})
	return ctx, func() { close(ended); cancel() }
}

// handleSignals answers the first request to end with a stop, and the second at once.
func (r *running) handleSignals(ended <-chan struct{}, stop context.CancelCauseFunc) {
	select {
	case <-ended:
		return
	case s := <-r.p.Signals:
		grace := "their grace period"
		if len(r.spec.Inputs()) > 0 {
			grace = r.spec.WithDefaults().Grace.Truncate(time.Millisecond).String()
		}
		r.show.note("stopping (%v): running calls get %v; once more to end at once. %s", s, grace, r.later())
		stop(fmt.Errorf("interrupted (%v)", s))
	}
	if r.p.secondSignal(ended) {
		r.show.note("ended at once. %s", r.later())
		r.p.Exit(ExitInterrupted)
	}
}

// later says what the same command does after an interruption.
func (r *running) later() string {
	if slices.Contains(r.spec.Inputs(), job.StandardInput) {
		return "The same command continues later if the standard input has been read to its end by then, and starts afresh otherwise."
	}
	return "The same command continues later."
}
