package starter

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/base/backoff"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/temporal/lookup"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"golang.org/x/sync/errgroup"
)

// lookForWorkers prints a note whenever it finds that no worker serves one of the pools, or that a workflow task of the
// job fails.
func lookForWorkers(ctx context.Context, p *Program, client *jobs.Client, run *jobs.Run, pools []string, show *progress) {
	for wait := unservedFirst; backoff.Wait(wait, ctx.Done()); wait = unservedEvery {
		noteUnserved(ctx, p, client, show, pools...)
		noteNeeds(ctx, run, show)
		if failing, _ := failingTask(ctx, run); failing != nil {
			show.note("%s", failing)
		}
	}
}

// failingTask is [jobs.Run.FailingTask] with a limit.
func failingTask(ctx context.Context, run *jobs.Run) (*jobs.FailingTask, error) {
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	return run.FailingTask(ctx)
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

// giveUpStuck calls giveUp with a *stuckError once a workflow task of the job has been seen to fail for failingLimit.
// It returns then, or when ctx is done.
func giveUpStuck(ctx context.Context, run *jobs.Run, giveUp func(error)) {
	var since time.Time
	for backoff.Wait(unservedEvery, ctx.Done()) {
		switch failing, _ := failingTask(ctx, run); {
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

// noteUnserved prints a note for each of the pools that no worker serves.
func noteUnserved(ctx context.Context, p *Program, client *jobs.Client, show *progress, pools ...string) {
	for _, pool := range pools {
		if pool == "" {
			continue
		}
		if n, err := pollers(ctx, client, pool); err == nil {
			show.served(pool, n > 0)
			if n == 0 {
				show.note("%s; %s", p.noWorker(pool), cmp.Or(show.then, jobContinues))
			}
		}
	}
}

// noteNeeds prints a note if no worker that polls knows the job's logic.
func noteNeeds(ctx context.Context, run *jobs.Run, show *progress) {
	if needs := needsOf(ctx, run); needs != "" {
		show.note("%s; %s", needs, cmp.Or(show.then, jobContinues))
	}
}

// notePin prints a note if a job is pinned to a version of the handler that no worker has.
func notePin(ctx context.Context, client *jobs.Client, show *progress, r job.Report, running []jobs.RunningBatch) {
	if r.Pinned == "" || len(running) > 0 || r.InFlight == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	if n, err := client.Get(r.Job).PinnedPollers(ctx, r); err == nil && n == 0 {
		show.note("no worker of pool %[1]s has version %[2]s of the handler, to which job %[3]s is pinned: start one with --version %[2]s; "+
			"or stop the job and resume it, which pins it to the version that then begins it", r.Pool, r.Pinned, r.Job)
	}
}

// needsOf says which release of stint a job needs that no worker knows; "": none, or that is not known.
func needsOf(ctx context.Context, run *jobs.Run) string {
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	needs, err := run.Needs(ctx)
	if err != nil || needs == "" {
		return ""
	}
	return fmt.Sprintf("job %s %s: no worker that polls knows its logic", run.Name(), needs)
}

// pollers is [jobs.Client.Pollers] with a limit.
func pollers(ctx context.Context, client *jobs.Client, pool string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	return client.Pollers(ctx, pool)
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

// silent says why no worker answers for a job of the pool, and what to do. served is false only if the server reports
// that there are no workers.
func (p *Program) silent(ctx context.Context, client *jobs.Client, pool string) (hint string, served bool) {
	switch n, err := pollers(ctx, client, pool); {
	case lookup.Away(err):
		return fmt.Sprintf(serverAway+"; ask again in some seconds", p.server), true
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

// A host that does not answer, or a network that is not there, shows as an outage only after the first tries have
// ended, which may take a minute.

const (
	// plannedWithin is after which time it is said that nothing is planned yet.
	plannedWithin = 3 * time.Second
	// namedPlaces is how many places are named.
	namedPlaces = 3
)

// lookedAt says what a job with this spec looks at before it has planned its first item.
func lookedAt(spec job.Spec) string {
	if slices.Contains(spec.Inputs(), job.StandardInput) {
		return "nothing has come on the standard input yet"
	}
	places := slices.Concat(spec.Inputs(), []string{spec.Output, spec.Errors, spec.Dropped, spec.Report})
	local := func(place string) bool { return !strings.Contains(place, "://") }
	if slices.ContainsFunc(places, func(place string) bool { return place != "" && !local(place) }) {
		places = slices.DeleteFunc(places, local) // it is not files that are waited for
	} else {
		places = spec.Inputs()
	}
	names := slices.Clone(places[:min(len(places), namedPlaces)])
	if len(places) > namedPlaces {
		names = append(names, "…")
	}
	return "nothing is planned yet: still looking at " + strings.Join(names, ", ")
}

// waits says after a while that nothing is planned yet, and what is looked at.
func (p *progress) waits(r job.Report, now time.Time) {
	unplanned := r.State == job.Running && r.Planned == 0 && !r.PlanDone && r.Outage == nil
	if unplanned && p.lookedAt != "" && !p.json && now.Sub(r.Started) > plannedWithin {
		p.say(p.lookedAt)
	}
}

// A handler that asks to slow down fails nothing, so a job whose every call is refused would go on in silence for ever.

// refusedFor is for how long nothing must have succeeded before that is said.
const refusedFor = time.Minute

const onlyRefusals = "nothing has succeeded for more than a minute, while calls end with a request to slow down (of a filter: exit status 75): " +
	"see what the service answers, or whether the handler means something else by it; the job goes on trying until it is stopped"

// refusals watches whether a job's calls do anything but ask to slow down.
type refusals struct {
	since     time.Time // when the last item was done, as far as it is known
	done      int64
	slowDowns int64 // counted then
}

// see takes a job's report, and reports whether onlyRefusals holds.
func (f *refusals) see(r job.Report, now time.Time) bool {
	fresh := r.Done() - r.Resumed
	switch {
	case f.since.IsZero() && fresh == 0:
		f.since = r.SlowedSince // before, it may have waited for a worker
		if f.since.IsZero() {
			return false
		}
	case f.since.IsZero() || fresh != f.done || r.SlowDowns == f.slowDowns: // or nothing has been refused since
		f.since, f.done, f.slowDowns = now, fresh, r.SlowDowns
	}
	return r.State == job.Running && r.Outage == nil && r.SlowDowns-f.slowDowns > 1 && now.Sub(f.since) > refusedFor
}

// heardLimit is the age from which a worker's last poll is worth a word: one that is idle polls once a minute.
const heardLimit = 70 * time.Second

// whoIsSilent says who does not answer for a job: a workflow task that fails, pools without a worker, those whose
// workers have not been heard of for a while, workers that do not coordinate the job, or the server; empty: they
// answer. A single pool without a name is the job's.
func (p *Program) whoIsSilent(ctx context.Context, client *jobs.Client, run *jobs.Run, pools []string) string {
	ctx = context.WithoutCancel(ctx)
	failing, err := failingTask(ctx, run)
	if failing != nil {
		return failing.String()
	}
	var said []string
	if !lookup.Away(err) && slices.Equal(pools, []string{""}) { // the limit was over before it was known
		pools = make([]string, 1)
		pools[0], err = poolOf(ctx, run)
	}
	if needs := needsOf(ctx, run); needs != "" {
		said = append(said, needs)
	} else if !lookup.Away(err) {
		said, err = silentPools(pools, func(pool string) (string, error) { return p.silentPool(ctx, client, pool) })
	}
	if lookup.Away(err) {
		return fmt.Sprintf(serverAway, p.server)
	}
	if len(said) == 0 && len(pools) > 0 && !answers(ctx, run) {
		said = append(said, fmt.Sprintf("the workers of pool %s are too busy, frozen or gone ('%s workers' lists them)", pools[0], p.name()))
	}
	return strings.Join(said, "; ")
}

// serverAway takes the server's address.
const serverAway = "the Temporal server at %s does not answer"

// silentPools returns what look says of pools, in their order. It looks at some at once, so that the last ones of many
// are looked at, too. The error is the first one.
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

// silentPool says why nobody answers for a pool; empty: it has workers, as far as the server knows. The error is the
// server's.
func (p *Program) silentPool(ctx context.Context, client *jobs.Client, pool string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	workers, err := client.Workers(ctx, pool)
	switch {
	case lookup.Away(err):
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

// answerTries is how often it is asked if the server, of a busy machine, takes longer to hand on the question.
const answerTries = 4

// answers reports whether somebody answers for a job; also if that is not known.
func answers(ctx context.Context, run *jobs.Run) bool {
	for range answerTries {
		if _, err := reportWithin(ctx, run, answersWithin); err == nil || wraps[*jobs.UnansweredError](err) {
			return err == nil
		}
	}
	return true
}

// whoDoesNotAnswer is whoIsSilent for a job that has not answered.
func (p *Program) whoDoesNotAnswer(ctx context.Context, client *jobs.Client, run *jobs.Run) string {
	pool, err := poolOf(context.WithoutCancel(ctx), run)
	if lookup.Away(err) {
		return fmt.Sprintf(serverAway, p.server)
	}
	gone := fmt.Sprintf("the workers of pool %s have been too busy, frozen or gone ('%s workers' lists them)", pool, p.name())
	return cmp.Or(p.whoIsSilent(ctx, client, run, []string{pool}), gone)
}

// poolOf asks the server for the job's pool.
func poolOf(ctx context.Context, run *jobs.Run) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	listed, err := run.Listed(ctx)
	return listed.Pool, err
}
