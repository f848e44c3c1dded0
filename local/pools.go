package local

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/temporal/devserver"
	"github.com/stint-run/stint/internal/temporal/embedded"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/worker"
)

// Pool says who runs the stages of one pool of a pipeline: a worker of its own, in this process.
type Pool struct {
	// Handler runs the items. Default: the one that is given to [Run].
	Handler worker.Handler
	// Options are those of the pool's worker. Fields that are zero are as in Options.Worker; so each pool has as many
	// slots as there are CPUs unless one of them sets Slots. Stdin is always that of Options.Worker, and what jobs may
	// read and write is the same for all pools. A worker with Metrics has an endpoint of its own.
	Options worker.Options
}

// poolWorker is a worker that a run needs.
type poolWorker struct {
	pool    string // as the job has it
	handler worker.Handler
	options worker.Options
}

// poolWorkers returns the workers that the job needs: one for each pool. The first one is that of the job's own pool,
// and coordinates.
func (r *run) poolWorkers(h worker.Handler) ([]poolWorker, error) {
	if err := r.checkPools(h); err != nil {
		return nil, err
	}
	if len(r.spec.Stages) == 0 {
		own := []poolWorker{{pool: r.spec.Pool, handler: h, options: r.o.Worker}}
		r.complement(own)
		return own, nil
	}
	var all []poolWorker
	for _, name := range slices.Sorted(maps.Keys(r.o.Pools)) {
		given := r.o.Pools[name]
		member := poolWorker{pool: privatePool(r.spec.Name, name), handler: given.Handler, options: given.Options}
		if member.handler.IsZero() {
			member.handler = h
		}
		inherit(&member.options, r.o.Worker)
		member.options.Stdin = r.o.Worker.Stdin
		embedded.Among(&member.options, name)
		at := len(all)
		if member.pool == r.spec.Pool {
			at = 0
		}
		all = slices.Insert(all, at, member)
	}
	r.complement(all)
	return all, nil
}

// complement adds what only the run knows to the options. The job's own pool plans, commits and finishes: it has the
// standard input, and protects the files of all handlers.
func (r *run) complement(members []poolWorker) {
	allow, reads := r.ownRoots()
	protect := []string{devserver.StateDir(r.state)}
	for _, m := range members {
		protect = slices.Concat(protect, m.options.Protect, m.handler.Files(m.options.Dir))
	}
	for i := range members {
		o := &members[i].options
		switch {
		case i > 0:
			o.Stdin, o.NoWorkflows = nil, true
		case o.Stdin != nil:
			r.stdin = inputs.Reserve(o.Stdin)
			o.Stdin = r.stdin
		}
		embedded.Alone(o, reads)
		o.Allow = r.o.Worker.Allow
		if !slices.Contains(o.Allow, worker.AllowAll) {
			o.Allow = slices.Concat(o.Allow, allow)
		}
		o.Protect = protect
	}
}

// inherit sets the exported fields of o that are zero to those of base.
func inherit(o *worker.Options, base worker.Options) {
	to, from := reflect.ValueOf(o).Elem(), reflect.ValueOf(base)
	for i := range to.NumField() {
		if field := to.Field(i); field.CanSet() && field.IsZero() {
			field.Set(from.Field(i))
		}
	}
}

// checkPools refuses pools without an entry, and entries that the job does not use. The spec is complete.
func (r *run) checkPools(h worker.Handler) error {
	if len(r.spec.Stages) == 0 {
		if len(r.o.Pools) > 0 {
			return fmt.Errorf("job %s has no stages: leave Options.Pools out", r.spec.Name)
		}
		return nil
	}
	var errs []error
	var served []string
	for _, name := range slices.Sorted(maps.Keys(r.o.Pools)) {
		served = append(served, privatePool(r.spec.Name, name))
		if r.o.Pools[name].Handler.IsZero() && h.IsZero() {
			errs = append(errs, fmt.Errorf("pool %s has no handler", name))
		}
	}
	reached := reachedPools(r.spec.WithDefaults())
	for _, pool := range reached {
		if !slices.Contains(served, pool) {
			errs = append(errs, fmt.Errorf("pool %s of job %s has no entry: add it to Options.Pools", publicPool(r.spec.Name, pool), r.spec.Name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.o.Pools)) {
		if !slices.Contains(reached, privatePool(r.spec.Name, name)) {
			errs = append(errs, fmt.Errorf("no stage of job %s uses pool %s: leave it out of Options.Pools", r.spec.Name, name))
		}
	}
	return errors.Join(errs...)
}

// reachedPools returns the pools of the stages and of the hooks.
func reachedPools(spec job.Spec) []string {
	pools := spec.Pools()
	for _, hook := range slices.Concat(spec.Init, spec.Shutdown, spec.Cleanup) {
		if pool, _ := spec.HookOf(hook); !slices.Contains(pools, pool) {
			pools = append(pools, pool)
		}
	}
	return pools
}

// usePrivatePools gives the pools of a pipeline names that no other job of the state has: batches of another job, which
// was interrupted, must never reach this one's handlers. The names of stages stay as they are.
func usePrivatePools(spec job.Spec) job.Spec {
	if len(spec.Stages) == 0 {
		return spec
	}
	name := func(pool string) string { return privatePool(spec.Name, pool) }
	spec.Stages = spec.WithDefaults().Stages // a copy, with the names that come from those of pools
	for i := range spec.Stages {
		renamePools(&spec.Stages[i], name)
	}
	spec.Pool = ""
	spec.Pool = spec.WithDefaults().Pool
	for _, hooks := range []*[]string{&spec.Init, &spec.Shutdown, &spec.Cleanup} {
		*hooks = slices.Clone(*hooks)
		for i, hook := range *hooks {
			if pool, hook, ok := strings.Cut(hook, "/"); ok {
				(*hooks)[i] = name(pool) + "/" + hook
			}
		}
	}
	return spec
}

func renamePools(s *job.Stage, name func(string) string) {
	if s.Pool != "" {
		s.Pool = name(s.Pool)
	}
	if s.Switch != "" && !s.ByField() {
		s.Switch = name(s.Switch)
	}
	for i := range s.Ensemble {
		renamePools(&s.Ensemble[i], name)
	}
	for i := range s.Cases {
		renamePools(&s.Cases[i].Stage, name)
	}
	if s.Default != nil {
		renamePools(s.Default, name)
	}
	for i := range s.Stages {
		renamePools(&s.Stages[i], name)
	}
}

// between separates the name of a job and that of its pool.
const between = "--"

// privatePool returns the name that a pool of a pipeline has on the server.
func privatePool(name, pool string) string {
	private := name + between + pool
	if len(private) <= limits.MaxName {
		return private
	}
	sum := sha256.Sum256([]byte(private))
	return "pool-" + hex.EncodeToString(sum[:])
}

// publicPool returns the name of a pool as the caller knows it.
func publicPool(name, private string) string { return strings.TrimPrefix(private, name+between) }
