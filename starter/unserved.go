package starter

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/stint-run/stint/internal/backoff"
	"github.com/stint-run/stint/jobs"
)

// lookForWorkers prints a note whenever it finds that no worker serves one of the pools, or that a workflow task of the job fails.
func lookForWorkers(ctx context.Context, p *Program, client *jobs.Client, run *jobs.Run, pools []string, show *progress) {
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
			if failing := failingTask(ctx, run); failing != nil {
				show.note("%s", failing)
			}
			looks.Reset(unservedEvery)
		}
	}
}

// failingTask finds the workflow task of a job that fails again and again; nil if there is none, or that is not known.
func failingTask(ctx context.Context, run *jobs.Run) *jobs.FailingTask {
	found, err := failingWithin(ctx, run, pollLimit)
	if err != nil {
		return nil
	}
	return found
}

// failingLimit is how long a workflow task may be seen to fail until who waits for a stop gives up.
const failingLimit = 15 * time.Second

// stuckError reports that a job cannot stop.
type stuckError struct {
	name string
	task *jobs.FailingTask
}

func (e *stuckError) Error() string {
	return fmt.Sprintf("the stop of %s stays requested, but the job cannot answer it: %s", e.name, e.task)
}

// giveUpStuck calls giveUp with a *stuckError once a workflow task of the job has been seen to fail for failingLimit. It returns
// then, or when ctx is done.
func giveUpStuck(ctx context.Context, run *jobs.Run, giveUp func(error)) {
	var since time.Time
	for backoff.Wait(unservedEvery, ctx.Done()) {
		switch failing := failingTask(ctx, run); {
		case failing == nil:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= failingLimit:
			giveUp(&stuckError{run.Name(), failing})
			return
		}
	}
}

// noteUnserved prints a note if no worker serves the pool.
func noteUnserved(ctx context.Context, p *Program, client *jobs.Client, pool string, show *progress) {
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
		show.note("%s; %s", p.noWorker(pool), cmp.Or(show.then, jobContinues))
	}
}

// jobContinues is what a job does once a worker serves its pool.
const jobContinues = "the job continues then"

// unserved says what to do if no worker serves a pool.
func (p *Program) unserved(pool string) string { return p.noWorker(pool) + "; " + jobContinues }

// noWorker says that no worker serves a pool, and how to start one.
func (p *Program) noWorker(pool string) string {
	command := " --exec COMMAND"
	if p.builtIn() {
		command = ""
	}
	return fmt.Sprintf("no worker serves pool %[1]s: start one with '%[2]s worker --pool %[1]s --allow ROOT%[3]s'", pool, p.name(), command)
}

// silent says why no worker answers for a job of the pool, and what to do. served is false only if the server reports that there are no workers.
func (p *Program) silent(ctx context.Context, client *jobs.Client, pool string) (hint string, served bool) {
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	switch n, err := client.Pollers(ctx, pool); {
	case err != nil:
		return fmt.Sprintf("who serves pool %s is not known (%v); ask again in some seconds", pool, err), true
	case n == 0:
		return p.unserved(pool), false
	}
	if said, err := p.silentPool(ctx, client, pool); said != "" && err == nil {
		return said + "; the job continues once one answers", true
	}
	return fmt.Sprintf("workers serve pool %s, but those that coordinate jobs have just begun, are too busy or are gone; ask again in some seconds", pool), true
}
