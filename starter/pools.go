package starter

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/local"
	"github.com/stint-run/stint/worker"
	"go.yaml.in/yaml/v3"
)

// poolKeys are the flags of a worker that are keys of a pool in a job file, too. The others are of the process.
var poolKeys = append(slices.Concat(handlerFlags(), commandKeys, httpFlags),
	"slots", "concurrency", "call-items", "rate", "env", "dir", "restarts", "ready", "kill-after", "seed", "cpus", "hook", "metrics")

// poolsFile is the part of a job file that says who runs the stages of a pipeline in this process.
type poolsFile struct {
	name string     // of the file
	node *yaml.Node // nil: it has no pools
}

// read returns the pools of the file. base are the worker's options from the command line, which hold for all pools
// unless their keys override them. The pools of a pipeline in spec are exactly those that its stages and hooks name; a
// nil spec is not known.
func (f *poolsFile) read(p *Program, base *workerOptions, spec *job.Spec) (map[string]local.Pool, error) {
	if f.node.Kind != yaml.MappingNode {
		return nil, f.usage(fmt.Errorf("line %d: %w", f.node.Line, errNoPools))
	}
	if i := slices.IndexFunc(handlerFlags(), base.flags.Changed); i >= 0 {
		return nil, usageError("--%s is for a job with one handler: the pools of the job file have theirs", handlerKinds[i].flag)
	}
	if err := base.settle(p); err != nil {
		return nil, err
	}
	pools, lines := map[string]local.Pool{}, map[string]int{}
	var errs []error
	for i := 0; i+1 < len(f.node.Content); i += 2 {
		key, value := f.node.Content[i], f.node.Content[i+1]
		if _, twice := lines[key.Value]; twice {
			errs = append(errs, fmt.Errorf("line %d: pools: duplicate key %q", key.Line, key.Value))
			continue
		}
		lines[key.Value] = key.Line
		pool, err := readPool(p, base.options, value)
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: pool %s: %w", key.Line, key.Value, err))
		}
		pools[key.Value] = pool
	}
	metrics := base.options.Metrics
	if _, port, _ := strings.Cut(":"+metrics, ":"); len(pools) > 1 && metrics != "" && !strings.HasSuffix(":"+port, ":0") {
		errs = append(errs, fmt.Errorf(
			"metrics %s: each pool has an endpoint of its own: use 0 for free ports, or the key metrics of each pool", metrics))
	}
	if spec != nil {
		errs = append(errs, f.fit(p, spec, lines))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, f.usage(err)
	}
	return pools, nil
}

func (f *poolsFile) usage(err error) error { return usageError("job file %s: %w", f.name, err) }

var errNoPools = errors.New("pools: expected a map such as {clean: {exec: sed s/a/b/}, score: {serve: python3 model.py, slots: 2}}")

// fit refuses pools without an entry, and entries that nothing uses.
func (f *poolsFile) fit(p *Program, spec *job.Spec, lines map[string]int) error {
	by := map[string]string{} // what uses a pool
	complete := spec.WithDefaults()
	for _, stage := range complete.StagePools() {
		by[stage.Pool] = cmp.Or(by[stage.Pool], "stage "+stage.Name)
	}
	for _, hook := range slices.Concat(complete.Init, complete.Shutdown, complete.Cleanup) {
		pool, _ := complete.HookOf(hook)
		by[pool] = cmp.Or(by[pool], "hook "+hook)
	}
	var errs []error
	for _, pool := range slices.Sorted(maps.Keys(by)) {
		if lines[pool] == 0 {
			entry := "{exec: COMMAND}"
			if p.builtIn() {
				entry = "{}"
			}
			errs = append(errs, fmt.Errorf("line %d: pool %s of %s has no entry: add '%s: %s' to pools", f.node.Line, pool, by[pool], pool, entry))
		}
	}
	for _, pool := range slices.Sorted(maps.Keys(lines)) {
		if by[pool] == "" {
			errs = append(errs, fmt.Errorf("line %d: no stage uses pool %s: leave it out", lines[pool], pool))
		}
	}
	return errors.Join(errs...)
}

// readPool reads one pool: the worker's flags as keys.
func readPool(p *Program, base worker.Options, node *yaml.Node) (local.Pool, error) {
	if node.Kind != yaml.MappingNode {
		return local.Pool{}, errNoPools
	}
	around := *p
	around.Options.Worker = base
	around.Options.Worker.Metrics = ""
	o, fs := workerOptions{}, pflag.NewFlagSet("", pflag.ContinueOnError)
	o.addFlags(fs, &around)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if !slices.Contains(poolKeys, key.Value) {
			return local.Pool{}, fmt.Errorf("line %d: unknown key %q: the keys are %s", key.Line, key.Value, strings.Join(poolKeys, ", "))
		}
		if fs.Lookup(key.Value).Changed {
			return local.Pool{}, fmt.Errorf("line %d: duplicate key %q", key.Line, key.Value)
		}
		if err := setFlag(fs, key.Value, value); err != nil {
			return local.Pool{}, fmt.Errorf("line %d: %w", key.Line, err)
		}
	}
	if fs.Changed("env") {
		o.flagged.Env = slices.Concat(base.Env, o.flagged.Env)
	}
	if !fs.Changed("metrics") {
		o.flagged.Metrics = base.Metrics
	}
	h, err := o.poolHandler(p)
	if err == nil {
		err = o.settle(p)
	}
	if err == nil {
		err = h.Check(o.options)
	}
	return local.Pool{Handler: h, Options: o.options}, err
}

// localPools returns the pools of a job file, for a command that runs its stages in this process; nil: the job has no
// stages.
func (o *jobOptions) localPools(p *Program, base *workerOptions, spec job.Spec) (map[string]local.Pool, error) {
	switch {
	case len(spec.Stages) == 0 && o.pools.node == nil:
		return nil, nil
	case len(spec.Stages) == 0:
		return nil, usageError("job file %s: line %d: pools are for a job with stages: leave them out", o.file, o.pools.node.Line)
	case o.pools.node == nil:
		pools := spec.WithDefaults().Pools()
		return nil, usageError("job file %s has stages, and does not say what runs them here: add 'pools: {%s: {exec: COMMAND}, …}', for %s; on a cluster, use '%s start -f FILE'",
			o.file, pools[0], strings.Join(pools, ", "), p.name())
	}
	check := spec.WithDefaults()
	check.Name, check.Store = "check", "check" // they do not matter here
	if err := check.Validate(); err != nil {
		return nil, usageError("%w", err)
	}
	return o.pools.read(p, base, &spec)
}

// refusePools is the error of `start` for a job file with pools.
func (o *jobOptions) refusePools(p *Program) error {
	if o.pools.node == nil {
		return nil
	}
	return usageError("job file %s: line %d: pools are for '%[3]s run', which serves them itself: leave them out, and start workers for each pool with '%[3]s worker --pool NAME --allow ROOT'",
		o.file, o.pools.node.Line, p.name())
}
