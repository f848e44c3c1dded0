package starter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/stint-run/stint/internal/trap"
	"github.com/stint-run/stint/jobs"
	"golang.org/x/sync/errgroup"
)

// A command that waits for a server, a worker or a job ends at the first request to end, and when its --timeout is over. Commands
// that serve (run, worker, server, gateway, codec-server) deal with signals themselves.

// interruptedError is the cause with which a request to end ends a command's context.
type interruptedError struct{ signal os.Signal }

func (e *interruptedError) Error() string { return fmt.Sprintf("interrupted (%v)", e.signal) }

// endLimit is how long a command may take to end after a request to end.
const endLimit = 3 * time.Second

// untilSignal returns a context that a request to end cancels, and how to end the waiting for one. A command that does not end then
// is ended.
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
	_, is := errors.AsType[*interruptedError](context.Cause(ctx))
	return is
}

// unlessInterrupted returns the error of a command that was run with this context: after a request to end one with its exit
// code. What the command says about that itself is kept; other errors only say that its context has ended.
func unlessInterrupted(ctx context.Context, err error) error {
	if err == nil || !interrupted(ctx) {
		return err
	}
	if coded, ok := errors.AsType[*codeError](err); ok && coded.code == ExitInterrupted {
		return err
	}
	return &codeError{code: ExitInterrupted}
}

// earlyEnd is how much earlier than the command's own limit that of the server may be over, which gets it with each request.
const earlyEnd = 100 * time.Millisecond

// awaitEnd waits for the end of a context that is about to be over.
func awaitEnd(ctx context.Context) {
	if deadline, has := ctx.Deadline(); has && time.Until(deadline) < earlyEnd {
		<-ctx.Done()
	}
}

// unlessOver is unlessInterrupted, also for the end of --timeout. An error that says so itself is kept; any other is that of a request
// to the server that had no answer by then.
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
	if w.timeout == 0 {
		fs.Lookup("timeout").DefValue = zeroDefault
	}
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

// over reports whether the limit has ended the context of a request that has failed.
func (w *waitLimit) over(ctx context.Context) bool {
	return isLimit(ctx)
}

// isLimit reports whether --timeout has ended the context of a request that has failed.
func isLimit(ctx context.Context) bool {
	awaitEnd(ctx)
	_, is := errors.AsType[*limitError](context.Cause(ctx))
	return is
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

// heardLimit is the age from which a worker's last poll is worth a word: one that is idle polls once a minute.
const heardLimit = 70 * time.Second

// whoIsSilent says who does not answer for a job: a workflow task that fails, pools without a worker, those whose workers have not been
// heard of for a while, workers that do not coordinate the job, or the server; empty: they answer.
// A single pool without a name is the job's.
func (p *Program) whoIsSilent(ctx context.Context, client *jobs.Client, run *jobs.Run, pools []string) string {
	ctx = context.WithoutCancel(ctx)
	failing, err := failingWithin(ctx, run, pollLimit)
	if failing != nil {
		return failing.String()
	}
	var said []string
	if !isAway(err) && slices.Equal(pools, []string{""}) { // the limit was over before it was known
		pools = make([]string, 1)
		pools[0], err = poolOf(ctx, run)
	}
	if !isAway(err) {
		said, err = silentPools(pools, func(pool string) (string, error) {
			ctx, cancel := context.WithTimeout(ctx, pollLimit)
			defer cancel()
			return p.silentPool(ctx, client, pool)
		})
	}
	if isAway(err) {
		return fmt.Sprintf("the Temporal server at %s does not answer", p.server)
	}
	if len(said) == 0 && len(pools) > 0 && !answers(ctx, run) {
		said = append(said, fmt.Sprintf("the workers of pool %s are too busy, frozen or gone ('%s workers' lists them)", pools[0], p.name()))
	}
	return strings.Join(said, "; ")
}

// silentPools is what look says of pools, in their order. It looks at some at once, so that the last ones of many are
// looked at, too. The error is the first one.
func silentPools(pools []string, look func(pool string) (string, error)) (said []string, err error) {
	all, group := make([]string, len(pools)), errgroup.Group{}
	group.SetLimit(poolsAtOnce)
	for i, pool := range pools {
		if pool == "" {
			continue
		}
		group.Go(func() error {
			return trap.Call("looking at a pool", func() (err error) {
				all[i], err = look(pool)
				return err
			})
		})
	}
	err = group.Wait()
	return slices.DeleteFunc(all, func(one string) bool { return one == "" }), err
}

// poolsAtOnce is how many pools are looked at at once.
const poolsAtOnce = 8

// failingWithin is [jobs.Run.FailingTask] with a limit.
func failingWithin(ctx context.Context, run *jobs.Run, limit time.Duration) (*jobs.FailingTask, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return run.FailingTask(ctx)
}

// silentPool says why nobody answers for a pool; empty: it has workers, as far as the server knows. The error is the server's.
func (p *Program) silentPool(ctx context.Context, client *jobs.Client, pool string) (string, error) {
	workers, err := client.Workers(ctx, pool)
	switch {
	case isAway(err):
		return "", err
	case err != nil:
		return fmt.Sprintf("who serves pool %s is not known (%v)", pool, rootCause(err)), nil
	case len(workers) == 0:
		return p.noWorker(pool), nil
	}
	last := slices.MaxFunc(workers, func(a, b jobs.PoolWorker) int { return a.Seen.Compare(b.Seen) })
	if time.Since(last.Seen) > heardLimit {
		return fmt.Sprintf("no worker of pool %s has been heard of for %s (the last one: %s)", pool, since(last.Seen), last.Worker), nil
	}
	return "", nil
}

// answersWithin is how long a job may take to show that somebody answers for it.
const answersWithin = time.Second

// answers reports whether somebody answers for a job; also if that is not known.
func answers(ctx context.Context, run *jobs.Run) bool {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	_, err := run.Report(ctx)
	_, silent := errors.AsType[*jobs.UnansweredError](err)
	return !silent
}

// whoDoesNotAnswer is whoIsSilent for a job that has not answered.
func (p *Program) whoDoesNotAnswer(ctx context.Context, client *jobs.Client, run *jobs.Run) string {
	pool, err := poolOf(context.WithoutCancel(ctx), run)
	if isAway(err) {
		return fmt.Sprintf("the Temporal server at %s does not answer", p.server)
	}
	if said := p.whoIsSilent(ctx, client, run, []string{pool}); said != "" {
		return said
	}
	return fmt.Sprintf("the workers of pool %s have been too busy, frozen or gone ('%s workers' lists them)", pool, p.name())
}

// poolOf asks the server for the job's pool.
func poolOf(ctx context.Context, run *jobs.Run) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	listed, err := run.Listed(ctx)
	return listed.Pool, err
}
