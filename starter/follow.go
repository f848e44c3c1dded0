package starter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-run/stint/internal/trap"
	"github.com/stint-run/stint/job"
)

const (
	pollEvery = 500 * time.Millisecond // while a person looks
	// pollLimit is how long a report may take; without a worker there is none.
	pollLimit = 3 * time.Second
	// answerLimit is how long a job may take to answer an update.
	answerLimit = 10 * time.Second
	// unservedEvery is how often the pool's pollers are checked, and unservedFirst the wait before the first check: the server
	// takes a moment to know a worker that has just been started.
	unservedEvery = 3 * time.Second
	unservedFirst = time.Second
)

// follow shows a job's progress until it has ended, and returns its final report. A job that
// failed is not an error: its report says so.
func follow(ctx context.Context, p *Program, client *job.Client, run *job.Run, pools []string, show *progress) (job.Report, error) {
	defer show.end()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	looked := trap.Go("looking for workers", func() error {
		lookForWorkers(ctx, p, client, pools, show)
		return nil
	})
	report, err := run.Follow(ctx, show.every(), show.show)
	cancel()
	if defect := <-looked; defect != nil {
		return report, defect
	}
	if _, ok := errors.AsType[*job.FailedError](err); ok {
		err = nil
	}
	return report, err
}

// lookForWorkers prints a note whenever it finds that no worker serves one of the pools.
func lookForWorkers(ctx context.Context, p *Program, client *job.Client, pools []string, show *progress) {
	looks := time.NewTimer(unservedFirst)
	defer looks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-looks.C:
			for _, pool := range pools {
				noteUnserved(ctx, p, client, pool, show)
			}
			looks.Reset(unservedEvery)
		}
	}
}

// noteUnserved prints a note if no worker serves the pool.
func noteUnserved(ctx context.Context, p *Program, client *job.Client, pool string, show *progress) {
	if pool == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	n, err := client.Pollers(ctx, pool)
	if err != nil {
		return
	}
	show.served(pool, n > 0)
	if n == 0 {
		show.note("%s", p.unserved(pool))
	}
}

// unserved says what to do if no worker serves a pool.
func (p *Program) unserved(pool string) string { return p.noWorker(pool) + "; the job continues then" }

// noWorker says that no worker serves a pool, and how to start one.
func (p *Program) noWorker(pool string) string {
	command := " --exec COMMAND"
	if p.builtIn() {
		command = ""
	}
	return fmt.Sprintf("no worker serves pool %[1]s: start one with '%[2]s worker --pool %[1]s --allow ROOT%[3]s'", pool, p.name(), command)
}

// outcome returns the exit code of a final report.
func outcome(r job.Report) error {
	switch {
	case r.State == job.Failed:
		return &codeError{code: ExitFailed}
	case r.State == job.Stopped && r.Error != nil: // with work still running
		return &codeError{code: ExitStragglers}
	case r.State == job.Stopped:
		return &codeError{code: ExitStopped}
	case r.Failed > 0:
		return &codeError{code: ExitSomeFailed}
	}
	return nil
}
